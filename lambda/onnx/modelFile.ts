import { closeSync, fstatSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';

/** Fields of a `ModelProto`. */
const GRAPH_FIELD = 7;
const OPSET_FIELD = 8;

/**
 * Checks cheaply, without loading it, that a file is a whole ONNX model: reads the outermost fields of the
 * `ModelProto`, and whether the files are there in which it keeps weights. Done at once, because a CDK app cannot wait:
 * weights are skipped.
 *
 * @throws Error naming the file when it is missing, empty, cut short or not ONNX, or a file of its weights is not there
 * @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */
export function checkModelFile(path: string): void {
  const file = openModel(path);
  try {
    const found = fstatSync(file);
    if (!found.isFile()) {
      throw new Error(`${path}: expected an ONNX model, got a folder; put the file model.onnx there`);
    }
    const { size } = found;
    if (size === 0) throw new Error(`${path}: expected an ONNX model, got an empty file; export the model again`);
    checkFields(file, size, path);
    checkExternalFiles(file, size, path);
  } finally {
    closeSync(file);
  }
}

function openModel(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (cause) {
    throw new Error(`${path}: expected an ONNX model, got no file that can be opened; put model.onnx there`, { cause });
  }
}

function checkFields(file: number, size: number, path: string): void {
  const found = new Set<number>();
  let end = 0;
  for (const field of fieldsOfFile(createReader(file), 0, size)) {
    if (field.wireType === LENGTH_DELIMITED) found.add(field.number);
    end = field.end;
  }
  if (end < size || !found.has(GRAPH_FIELD)) throw notOnnx(file, path);
  if (end === size && found.has(OPSET_FIELD)) return;
  const whole = Math.max(end, size + 1);
  throw new Error(`${path}: expected at least ${whole} bytes, got ${size}; the file was cut short, copy it again`);
}

function checkExternalFiles(file: number, size: number, path: string): void {
  for (const [location, bytes] of externalFiles(file, size)) {
    const beside = resolve(dirname(path), location);
    if (!beside.startsWith(`${resolve(dirname(path))}${sep}`)) {
      throw new Error(
        `${path}: expected its weights in files beside it, got '${location}', which ONNX Runtime does not follow out of ` +
          'the folder; export the model again, with them beside it',
      );
    }
    const isName = !location.includes('\0');
    const found = isName ? statSync(beside, { throwIfNoEntry: false }) : undefined;
    if (found?.isFile() !== true) {
      throw new Error(
        `${path}: expected its weights in the file '${location}' beside it, got none; put it there, or export the ` +
          'model as one file',
      );
    }
    // ONNX Runtime looks at where links lead, and what is copied or published has no links any more.
    const folders = [realpathSync(dirname(path)), dirname(realpathSync(path))];
    if (!folders.some((folder) => realpathSync(beside).startsWith(`${folder}${sep}`))) {
      throw new Error(
        `${path}: expected its weights in files beside it, got '${location}', a link out of the folder; put the file there`,
      );
    }
    if (found.size < bytes) {
      throw new Error(
        `${beside}: expected at least ${bytes} bytes, got ${found.size}; the file was cut short, or is a pointer of ` +
          'Git LFS to it: copy it again, or run git lfs pull',
      );
    }
  }
}

/** What stands in place of a file that Git LFS has not fetched. @see https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md */
const LFS_POINTER = 'version https://git-lfs.github.com/spec/';

function notOnnx(file: number, path: string): Error {
  const start = Buffer.alloc(LFS_POINTER.length);
  readSync(file, start, 0, start.length, 0);
  const found = OTHER_MODELS.find(([beginning]) => start.toString('latin1').startsWith(beginning));
  const got = found?.[1] ?? 'a file that is not ONNX; export the model anew, as with torch.onnx';
  return new Error(`${path}: expected an ONNX model, got ${got}`);
}

/** How files begin that are often given in place of a model in ONNX, and what to do with them. */
const OTHER_MODELS = [
  [LFS_POINTER, 'a file that is a pointer of Git LFS to it; run: git lfs pull'],
  ['\x80', 'a pickle, as of scikit-learn; convert the model with skl2onnx, as docs/recipes.md shows'],
  ['PK\x03\x04', 'a zip, as torch.save writes it; export the model with torch.onnx, as docs/recipes.md shows'],
  ['\x89HDF', 'HDF5, as Keras writes it; convert the model with tf2onnx'],
] as const;

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
const TENSOR_DATA_LOCATION = 14;
/** That its data is in another file. */
export const EXTERNAL = 1;
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

/** The paths of the files in which the model at `path` keeps weights, in order. */
export function externalFilesOf(path: string): string[] {
  const file = openSync(path, 'r');
  try {
    return [...externalFiles(file, fstatSync(file).size).keys()].toSorted().map((name) => resolve(dirname(path), name));
  } finally {
    closeSync(file);
  }
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
  let location = 0;
  for (const { number, start, end, value: place = 0 } of fieldsOfFile(read, tensor.start, tensor.end)) {
    if (number === TENSOR_DATA_LOCATION) location = place;
    if (number !== TENSOR_EXTERNAL_DATA) continue;
    const entry = read(start, end - start);
    const texts = [...fieldsIn(entry)].map((text) => [text.number, entry.toString('utf8', text.start, text.end)]);
    const { [ENTRY.key]: key = '', [ENTRY.value]: value = '' } = Object.fromEntries(texts);
    entries[key] = value;
  }
  // Entries may be left of a tensor whose data was moved into the model.
  return location === EXTERNAL ? entries : {};
}

export function* fieldsOfFile(read: Read, start: number, end: number): Generator<Field> {
  for (let position = start; position < end; ) {
    const header = readField(read(position, Math.min(MAX_HEADER_BYTES, end - position)), 0);
    if (header === undefined) return;
    yield { ...header, start: position + header.start, end: position + header.end };
    position += header.end;
  }
}

/** What a damaged file says to lie beyond its end is not there. */
export function createReader(file: number): Read {
  const { size } = fstatSync(file);
  let window = Buffer.alloc(0);
  let windowStart = 0;
  return (position, wanted) => {
    const length = Math.max(0, Math.min(wanted, size - position));
    if (position < windowStart || position + length > windowStart + window.length) {
      const buffer = Buffer.allocUnsafe(Math.max(length, WINDOW_BYTES));
      window = buffer.subarray(0, readSync(file, buffer, 0, buffer.length, position));
      windowStart = position;
    }
    return window.subarray(position - windowStart, position - windowStart + length);
  };
}

/** Values that a model's operators know: the words of its vocabularies, the thresholds of its trees. */
export interface KnownValues {
  readonly words: readonly string[];
  readonly numbers: readonly number[];
}

/** What is remarkable of the nodes with one operator. */
export interface Operator {
  /** One of them works along axis 0, or is a reduction over all axes. */
  readonly overBatch: boolean;
  readonly training: boolean;
}

/** What a model is made of, as far as its rows' independence is concerned. */
export interface ModelGraph extends KnownValues {
  readonly operators: ReadonlyMap<string, Operator>;
}

/** Fields of the messages of onnx.proto. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const MODEL = { graph: 7, functions: 25 } as const;
const GRAPH_NODE = 1;
const FUNCTION_NODE = 7;
const NODE = { input: 1, operator: 4, attribute: 5 } as const;
const ATTRIBUTE = { name: 1, integer: 3, tensor: 5, graph: 6, floats: 7, integers: 8, strings: 9, graphs: 11 } as const;
const TENSOR_STRINGS = 6;

/** What a node holds beyond is its weights. */
const MAX_NODE_BYTES = 1024 * 1024;
/** More of them make no better probes. */
const MAX_VALUES = 2048;

/** Attributes with the values at which an operator decides, or which it knows. */
const NUMBERS_THAT_TELL = new Set(['nodes_values', 'keys_floats', 'keys_int64s', 'cats_int64s']);

/** Its words, such as BRANCH_LEQ, are no values of rows. */
const MODES_OF_TREES = 'nodes_modes';

/**
 * The operators of a model, those of its functions, loops and branches among them, and the values that they know. Weights
 * are skipped, not read: 300 MB take 2 ms as one tensor, 150 as 2,000 of them.
 *
 * @param path of a file that is known to be ONNX
 */
export function readGraph(path: string): ModelGraph {
  const file = openSync(path, 'r');
  try {
    const found = { operators: new Map<string, Operator>(), words: new Set<string>(), numbers: new Set<number>() };
    const read = createReader(file);
    for (const field of fieldsOfFile(read, 0, fstatSync(file).size)) {
      const nodes = { [MODEL.graph]: GRAPH_NODE, [MODEL.functions]: FUNCTION_NODE }[field.number];
      if (nodes === undefined) continue;
      for (const { number, start, end } of fieldsOfFile(read, field.start, field.end)) {
        if (number === nodes) readNode(read(start, Math.min(end - start, MAX_NODE_BYTES)), found);
      }
    }
    return { operators: found.operators, words: [...found.words], numbers: [...found.numbers] };
  } finally {
    closeSync(file);
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
  let inputs = 0;
  let namesAxes = false;
  for (const field of fieldsIn(node)) {
    if (field.number === NODE.input) inputs += 1;
    if (field.number === NODE.operator) name = node.toString('utf8', field.start, field.end);
    if (field.number !== NODE.attribute) continue;
    const attribute = readAttribute(node.subarray(field.start, field.end), found);
    if (attribute.name === 'axis' && attribute.integer === 0) seen = { ...seen, overBatch: true };
    if (attribute.name === 'training_mode' && attribute.integer === 1) seen = { ...seen, training: true };
    namesAxes ||= attribute.name === 'axes' || attribute.name === 'noop_with_empty_axes';
  }
  // A reduction that names no axes, as an attribute or as its second input, is one over all of them.
  if (name.startsWith('Reduce') && inputs === 1 && !namesAxes) seen = { ...seen, overBatch: true };
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
    else if (field.number === ATTRIBUTE.strings && name !== MODES_OF_TREES) addWord(bytes, field, found);
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
  if (words.size < MAX_VALUES) words.add(bytes.toString('utf8', start, end));
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
  if (value !== 0 && Number.isFinite(value) && numbers.size < MAX_VALUES) numbers.add(value);
}

/** Wire types. @see https://protobuf.dev/programming-guides/encoding/ */
const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

/** The most bytes of a tag and the length or number after it. */
const MAX_HEADER_BYTES = 20;

/** One field of a message: its number, and where its contents lie. A number is its own contents. */
export interface Field {
  readonly number: number;
  readonly wireType: number;
  /** Where the contents begin; of a number, the number itself. */
  readonly start: number;
  readonly end: number;
  /** A varint's value, as far as a double holds it; 0 for other fields. */
  readonly value: number;
}

/** The field that begins at `position`; undefined where there is none. Its contents may end beyond the bytes. */
function readField(bytes: Buffer, position: number, end = bytes.length): Field | undefined {
  const tag = readVarint(bytes, position, end);
  if (tag === undefined || tag.value >> 3 === 0) return undefined;
  const number = tag.value >> 3;
  const wireType = tag.value & 7;
  const after = position + tag.bytes;
  if (wireType === FIXED64) return { number, wireType, start: after, end: after + 8, value: 0 };
  if (wireType === FIXED32) return { number, wireType, start: after, end: after + 4, value: 0 };
  const varint = readVarint(bytes, after, end);
  if (varint === undefined) return undefined;
  if (wireType === VARINT) return { number, wireType, start: after, end: after + varint.bytes, value: varint.value };
  if (wireType !== LENGTH_DELIMITED) return undefined;
  const start = after + varint.bytes;
  return { number, wireType, start, end: start + varint.value, value: 0 };
}

/** The fields from `start` to `end`, as far as they lie within the bytes. */
function* fieldsIn(bytes: Buffer, start = 0, end = bytes.length): Generator<Field> {
  const last = Math.min(end, bytes.length);
  for (let position = start; position < last; ) {
    const field = readField(bytes, position, last);
    if (field === undefined) return;
    yield field;
    position = field.end;
  }
}

function readVarint(
  bytes: Buffer,
  start: number,
  end: number,
): { readonly value: number; readonly bytes: number } | undefined {
  let value = 0;
  for (let index = start; index < end && index < start + 10; index++) {
    const byte = bytes[index] as number;
    value += (byte & 0x7f) * 2 ** (7 * (index - start));
    if (byte < 0x80) return { value, bytes: index - start + 1 };
  }
  return undefined;
}

/** Element types that ONNX Runtime for Node cannot carry, by number. @see onnx.proto, TensorProto.DataType */
export const TYPES_NOT_CARRIED: Readonly<Record<string, string>> = {
  14: 'complex64',
  15: 'complex128',
  16: 'bfloat16',
  17: 'float8e4m3fn',
  18: 'float8e4m3fnuz',
  19: 'float8e5m2',
  20: 'float8e5m2fnuz',
  21: 'uint4',
  22: 'int4',
  23: 'float4e2m1',
};
