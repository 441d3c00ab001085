export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The value of a JSON text; undefined where it is none. */
export function parseIfJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * JSON text in characters that every SQS server accepts. SQS itself refuses U+FFFE and U+FFFF, which JSON leaves as
 * they are; fauxqs also refuses everything beyond U+FFFF. All become JSON escapes, so the document stays the same.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
 */
export function escapeForSqs(json: string): string {
  return json.replace(/[\uD800-\uDFFF\uFFFE\uFFFF]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16)}`);
}
