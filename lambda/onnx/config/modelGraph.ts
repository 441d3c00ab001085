import { type FileHandle, open } from 'node:fs/promises';
import type { ModelGraph, Operator } from '../startup/modelGraph.ts';
import { type Field, fieldsIn, MOST_HEADER_BYTES, readField } from './protobuf.ts';

/** Fields of the messages of onnx.proto. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const MODEL = { graph: 7, functions: 25 } as const;
const GRAPH_NODE = 1;
const FUNCTION_NODE = 7;
const NODE = { operator: 4, attribute: 5 } as const;
const ATTRIBUTE = { name: 1, integer: 3, tensor: 5, graph: 6, floats: 7, integers: 8, strings: 9, graphs: 11 } as const;
const TENSOR_STRINGS = 6;

const WINDOW_BYTES = 1024 * 1024;
/** More of them make no better probes. */
const MOST_VALUES = 2048;

/** Attributes with the values at which an operator decides, or which it knows. */
const NUMBERS_THAT_TELL = new Set(['nodes_values', 'keys_floats', 'keys_int64s', 'cats_int64s']);

/**
 * The operators of a model, those of its functions, loops and branches among them, and the values that they know. Weights
 * are skipped, not read: 300 MB take 2 ms as one tensor, 150 as 2,000 of them.
 *
 * @param path of a file that is known to be ONNX
 */
export async function readGraph(path: string): Promise<ModelGraph> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const found = { operators: new Map<string, Operator>(), words: new Set<string>(), numbers: new Set<number>() };
    for await (const { field } of fieldsOfFile(file, 0, size)) {
      const nodes = { [MODEL.graph]: GRAPH_NODE, [MODEL.functions]: FUNCTION_NODE }[field.number];
      if (nodes === undefined) continue;
      for await (const { field: inner, bytes } of fieldsOfFile(file, field.start, field.end)) {
        if (inner.number === nodes) readNode(await bytes(), found);
      }
    }
    return { operators: found.operators, words: [...found.words], numbers: [...found.numbers] };
  } finally {
    await file.close();
  }
}

/** A field of the file, and its contents, of which no more than a window is read. */
interface FieldOfFile {
  readonly field: Field;
  readonly bytes: () => Promise<Buffer>;
}

async function* fieldsOfFile(file: FileHandle, start: number, end: number): AsyncGenerator<FieldOfFile> {
  let window = Buffer.alloc(0);
  let windowStart = start;
  const at = async (position: number, length: number): Promise<Buffer> => {
    const wanted = Math.min(length, end - position, WINDOW_BYTES);
    if (position < windowStart || position + wanted > windowStart + window.length) {
      const buffer = Buffer.alloc(Math.max(wanted, Math.min(WINDOW_BYTES / 16, end - position)));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      window = buffer.subarray(0, bytesRead);
      windowStart = position;
    }
    const from = position - windowStart;
    return window.subarray(from, from + wanted);
  };
  for (let position = start; position < end; ) {
    const header = readField(await at(position, MOST_HEADER_BYTES), 0);
    if (header === undefined) return;
    const field = { ...header, start: position + header.start, end: position + header.end };
    yield { field, bytes: () => at(field.start, field.end - field.start) };
    position = field.end;
  }
}

interface Found {
  readonly operators: Map<string, Operator>;
  readonly words: Set<string>;
  readonly numbers: Set<number>;
}

function readNode(node: Buffer, found: Found): void {
  let name = '';
  let seen: Operator = { overBatch: false, training: false };
  for (const field of fieldsIn(node)) {
    if (field.number === NODE.operator) name = node.toString('utf8', field.start, field.end);
    if (field.number !== NODE.attribute) continue;
    const attribute = readAttribute(node.subarray(field.start, field.end), found);
    if (attribute.name === 'axis' && attribute.integer === 0) seen = { ...seen, overBatch: true };
    if (attribute.name === 'training_mode' && attribute.integer === 1) seen = { ...seen, training: true };
  }
  const before = found.operators.get(name);
  found.operators.set(name, {
    overBatch: seen.overBatch || before?.overBatch === true,
    training: seen.training || before?.training === true,
  });
}

function readAttribute(bytes: Buffer, found: Found): { readonly name: string; readonly integer: number | undefined } {
  let name = '';
  let integer: number | undefined;
  for (const field of fieldsIn(bytes)) {
    if (field.number === ATTRIBUTE.name) name = bytes.toString('utf8', field.start, field.end);
    else if (field.number === ATTRIBUTE.integer) integer = field.value;
    else if (field.number === ATTRIBUTE.strings) addWord(bytes, field, found);
    else if (field.number === ATTRIBUTE.tensor) readTensor(bytes, field, found);
    else if (field.number === ATTRIBUTE.graph || field.number === ATTRIBUTE.graphs) readBody(bytes, field, found);
    else if (NUMBERS_THAT_TELL.has(name)) addNumbers(bytes, field, found.numbers);
  }
  return { name, integer };
}

function readTensor(bytes: Buffer, { start, end }: Field, found: Found): void {
  for (const field of fieldsIn(bytes, start, end)) if (field.number === TENSOR_STRINGS) addWord(bytes, field, found);
}

function addWord(bytes: Buffer, { start, end }: Field, { words }: Found): void {
  if (words.size < MOST_VALUES) words.add(bytes.toString('utf8', start, end));
}

/** The graph of a loop or a branch. */
function readBody(bytes: Buffer, { start, end }: Field, found: Found): void {
  for (const field of fieldsIn(bytes, start, end)) {
    if (field.number === GRAPH_NODE) readNode(bytes.subarray(field.start, field.end), found);
  }
}

/** One element in a field of its own, or all of them packed in one: writers do either. */
function addNumbers(bytes: Buffer, { number, start, end, value }: Field, numbers: Set<number>): void {
  const last = Math.min(end, bytes.length);
  if (number === ATTRIBUTE.integers) {
    if (end - start <= 10) addNumber(value, numbers);
    return;
  }
  if (number !== ATTRIBUTE.floats) return;
  for (let at = start; at + 4 <= last; at += 4) addNumber(bytes.readFloatLE(at), numbers);
}

/** Leaves of trees have 0 for a threshold. */
function addNumber(value: number, numbers: Set<number>): void {
  if (value !== 0 && Number.isFinite(value) && numbers.size < MOST_VALUES) numbers.add(value);
}
