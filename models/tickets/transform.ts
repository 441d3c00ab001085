import type { TransformBody, TransformInput, TransformOutputs } from 'batchscore';
import labels from './labels.json' with { type: 'json' };
import { TOKENS_PER_TEXT, tokenize } from './tokenizer.ts';

/** What the model makes of one text. */
export interface RoutedTicket {
  readonly label: string;
  /** The probability the model gives the label, to four decimals. */
  readonly confidence: number;
}

const KNOWN_KEYS = ['id', 'model_name', 'model_version', 'parameters', 'outputs', 'text', 'texts'];
const WHAT_TO_SEND = 'send one ticket as "text": "…", or several as "texts": ["…", "…"]';

/**
 * Tokenizes the ticket in `text`, or the tickets in `texts`, into one input: `token_ids`, int64 `[tickets, 32]`.
 *
 * @throws Error when there is no text, or a key that means nothing here
 */
export function decode(body: TransformBody): readonly TransformInput[] {
  const texts = textsOf(body);
  const data = BigInt64Array.from(texts.flatMap(tokenize), BigInt);
  return [{ name: 'token_ids', datatype: 'INT64', shape: [texts.length, TOKENS_PER_TEXT], data }];
}

/** One routed ticket per row of `label` int64 `[tickets]` and `probabilities` float32 `[tickets, classes]`. */
export function encode(outputs: TransformOutputs): { readonly tickets: readonly RoutedTicket[] } {
  const { label, probabilities } = outputs;
  if (label === undefined || probabilities === undefined) {
    throw new Error(
      `outputs: expected label and probabilities, got ${Object.keys(outputs).join(', ') || 'none'}; ask for both, or leave "outputs" out`,
    );
  }
  const classes = Array.from(label.data, Number);
  return { tickets: classes.map((index, row) => routedTicket(index, probabilities.data[row * labels.length + index])) };
}

function routedTicket(index: number, confidence: unknown): RoutedTicket {
  const label = labels[index];
  if (label === undefined || typeof confidence !== 'number') {
    throw new Error(`label: expected one of ${labels.length} classes, got ${index}; retrain the model for labels.json`);
  }
  return { label, confidence: Math.round(confidence * 10_000) / 10_000 };
}

function textsOf(body: TransformBody): readonly string[] {
  const unknown = Object.keys(body).filter((key) => !KNOWN_KEYS.includes(key));
  if (unknown.length > 0) {
    throw new Error(`request: expected the keys ${KNOWN_KEYS.join(', ')}, got also ${unknown.join(', ')}; remove it`);
  }
  const { text, texts } = body;
  if (text !== undefined && texts !== undefined) {
    throw new Error('request: expected "text" or "texts", got both; send one of them');
  }
  return texts === undefined ? [checkedText('text', text)] : checkedTexts(texts);
}

function checkedTexts(texts: unknown): readonly string[] {
  if (!Array.isArray(texts)) {
    throw new Error(`texts: expected an array of strings, got ${kindOf(texts)}; ${WHAT_TO_SEND}`);
  }
  if (texts.length === 0) throw new Error(`texts: expected at least one string, got none; ${WHAT_TO_SEND}`);
  return texts.map((text: unknown, index) => checkedText(`texts[${index}]`, text));
}

function checkedText(where: string, text: unknown): string {
  if (typeof text === 'string') return text;
  throw new Error(`${where}: expected a string, got ${kindOf(text)}; ${WHAT_TO_SEND}`);
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
