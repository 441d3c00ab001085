import { readSync } from 'node:fs';
import { type Field, fieldsIn, LENGTH_DELIMITED, MOST_HEADER_BYTES, readField } from './protobuf.ts';

/**
 * By kind of message, the numbers of the fields that lead to tensors, and the kind of what they hold.
 *
 * @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */
const WITHIN: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  model: { 7: 'graph', 25: 'function' },
  graph: { 1: 'node', 5: 'tensor', 15: 'sparse' },
  function: { 7: 'node' },
  node: { 5: 'attribute' },
  attribute: { 5: 'tensor', 6: 'graph', 10: 'tensor', 11: 'graph', 22: 'sparse', 23: 'sparse' },
  sparse: { 1: 'tensor', 2: 'tensor' },
};
const TENSOR_EXTERNAL_DATA = 13;
const LOCATION = 'location';
const ENTRY = { key: 1, value: 2 } as const;

/** Headers lie close together where there are no weights between them. */
const WINDOW_BYTES = 2 * 1024;

/** @returns the bytes from `position`, as many as there are */
export type Read = (position: number, length: number) => Buffer;

/**
 * The files in which a model keeps weights, as it names them, each with the bytes that it must have at least. Weights are
 * skipped, not read.
 *
 * @param file a whole ONNX model of `size` bytes
 * @see https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
 */
export function externalFiles(file: number, size: number): ReadonlyMap<string, number> {
  const read = createReader(file);
  const files = new Map<string, number>();
  for (const tensor of tensorsIn(read, 'model', 0, size)) {
    const { [LOCATION]: location, offset = '0', length = '0' } = entriesOf(read, tensor);
    if (location === undefined) continue;
    files.set(location, Math.max(files.get(location) ?? 0, Number(offset) + Number(length)));
  }
  return files;
}

function* tensorsIn(read: Read, kind: string, start: number, end: number): Generator<Field> {
  for (const field of fieldsOfFile(read, start, end)) {
    const inner = field.wireType === LENGTH_DELIMITED ? WITHIN[kind]?.[field.number] : undefined;
    if (inner === undefined || !mayNameFile(read, field)) continue;
    if (inner === 'tensor') yield field;
    else yield* tensorsIn(read, inner, field.start, field.end);
  }
}

/** Most nodes and small tensors name none, which one look tells. */
function mayNameFile(read: Read, { start, end }: Field): boolean {
  return end - start > WINDOW_BYTES || read(start, end - start).includes(LOCATION);
}

/** Of a tensor that has its data elsewhere, where; of any other nothing. */
function entriesOf(read: Read, tensor: Field): { readonly [key: string]: string | undefined } {
  const entries: Record<string, string> = {};
  for (const { number, start, end } of fieldsOfFile(read, tensor.start, tensor.end)) {
    if (number !== TENSOR_EXTERNAL_DATA) continue;
    const entry = read(start, end - start);
    const texts = [...fieldsIn(entry)].map((text) => [text.number, entry.toString('utf8', text.start, text.end)]);
    const { [ENTRY.key]: key = '', [ENTRY.value]: value = '' } = Object.fromEntries(texts);
    entries[key] = value;
  }
  return entries;
}

export function* fieldsOfFile(read: Read, start: number, end: number): Generator<Field> {
  for (let position = start; position < end; ) {
    const header = readField(read(position, Math.min(MOST_HEADER_BYTES, end - position)), 0);
    if (header === undefined) return;
    yield { ...header, start: position + header.start, end: position + header.end };
    position += header.end;
  }
}

export function createReader(file: number): Read {
  let window = Buffer.alloc(0);
  let windowStart = 0;
  return (position, length) => {
    if (position < windowStart || position + length > windowStart + window.length) {
      const buffer = Buffer.allocUnsafe(Math.max(length, WINDOW_BYTES));
      window = buffer.subarray(0, readSync(file, buffer, 0, buffer.length, position));
      windowStart = position;
    }
    return window.subarray(position - windowStart, position - windowStart + length);
  };
}
