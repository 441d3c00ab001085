/** Producers write the name among the first fields; behind a long tensor it is not looked for. */
const HEAD_CHARACTERS = 512;
const MODEL_NAME = /"model_name"\s*:\s*"([^"\\]+)"/;

/**
 * The model that a body seems to name, without decoding it; undefined where none is seen. It may be wrong, as in a
 * packed message for several models: a hint says what is batched together, and decoding says what is scored.
 */
export function modelHint(body: string): string | undefined {
  return MODEL_NAME.exec(body.slice(0, HEAD_CHARACTERS))?.[1];
}
