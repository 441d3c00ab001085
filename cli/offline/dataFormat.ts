import { isObject, type JsonObject, parseIfJson } from '../../lambda/core/json.ts';
import type { Model } from '../../lambda/core/model.ts';

/** What a file holds: requests or plain objects, one a line, CSV with a header, or one array of NumPy. */
export const DATA_FORMATS = ['requests', 'ndjson', 'csv', 'npy'] as const;
export type DataFormat = (typeof DATA_FORMATS)[number];

/** By how its name ends; undefined for lines of JSON, of which the first one tells. */
export function formatByEnding(path: string): DataFormat | undefined {
  if (/\.csv$/i.test(path)) return 'csv';
  return /\.npy$/i.test(path) ? 'npy' : undefined;
}

/** One of these makes an object a request, whatever the model's inputs are called. */
const KEYS_OF_REQUESTS = ['inputs', 'instances', 'model_name'];

/**
 * What lines are: requests or plain objects, as the first of them tells that is an object. Of a model with a transform
 * all are requests: it knows its own keys.
 */
export function formatByLines(lines: Iterable<string>, { transform }: Model): 'requests' | 'ndjson' {
  if (transform?.decode !== undefined) return 'requests';
  const first = firstObject(lines);
  if (first === undefined) return 'requests';
  return isRequest(first) ? 'requests' : 'ndjson';
}

export function isRequest(object: JsonObject): boolean {
  return KEYS_OF_REQUESTS.some((key) => Object.hasOwn(object, key));
}

/** The first line that is an object with a key. */
export function firstObject(lines: Iterable<string>): JsonObject | undefined {
  for (const line of lines) {
    const value = parseIfJson(line);
    if (isObject(value) && Object.keys(value).length > 0) return value;
  }
  return undefined;
}
