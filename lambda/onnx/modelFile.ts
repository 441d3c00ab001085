import { closeSync, fstatSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';
import { type GraphNode, withGraph } from './graph.ts';
import { createReader, fieldsOf, LENGTH_DELIMITED, Message, type Read, WINDOW_BYTES } from './protobuf.ts';

/** Field numbers of a `ModelProto`. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const MODEL = { graph: 7, opset: 8, functions: 25 } as const;

/**
 * Checks cheaply that a file is a whole ONNX model, and that the files of its weights exist. It reads the outermost
 * fields of the `ModelProto` and skips weights. It is synchronous because a CDK app cannot wait.
 *
 * @throws Error naming the file if it is missing, empty, cut short or not ONNX, or a file of its weights is missing
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
  for (const field of fieldsOf(createReader(file), { start: 0, end: size })) {
    if (field.wireType === LENGTH_DELIMITED) found.add(field.number);
    end = field.end;
  }
  if (end < size || !found.has(MODEL.graph)) throw notOnnx(file, path);
  if (end === size && found.has(MODEL.opset)) return;
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
    // ONNX Runtime resolves links, and copied or published files are no links any more.
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

/**
 * Start of a file that Git LFS has not fetched.
 * @see https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
 */
const LFS_POINTER = 'version https://git-lfs.github.com/spec/';

function notOnnx(file: number, path: string): Error {
  const start = Buffer.alloc(LFS_POINTER.length);
  readSync(file, start, 0, start.length, 0);
  const found = OTHER_MODELS.find(([beginning]) => start.toString('latin1').startsWith(beginning));
  const got = found?.[1] ?? 'a file that is not ONNX; export the model again, for example with torch.onnx';
  return new Error(`${path}: expected an ONNX model, got ${got}`);
}

/** First bytes of files that are often taken for ONNX models, and advice. */
const OTHER_MODELS = [
  [LFS_POINTER, 'a file that is a pointer of Git LFS to it; run: git lfs pull'],
  ['\x80', 'a pickle, as of scikit-learn; convert the model with skl2onnx, as docs/recipes.md shows'],
  ['PK\x03\x04', 'a zip, as torch.save writes it; export the model with torch.onnx, as docs/recipes.md shows'],
  ['\x89HDF', 'HDF5, as Keras writes it; convert the model with tf2onnx'],
] as const;

/**
 * Fields that lead to tensors by kind of message, and the kind of their content. The parser merges repeated `isOne`
 * fields.
 *
 * @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */
const WITHIN: Readonly<Record<string, Readonly<Record<number, { readonly kind: string; readonly isOne?: true }>>>> = {
  model: { 7: { kind: 'graph', isOne: true }, 25: { kind: 'function' } },
  graph: { 1: { kind: 'node' }, 5: { kind: 'tensor' }, 15: { kind: 'sparse' } },
  function: { 7: { kind: 'node' }, 11: { kind: 'attribute' } },
  node: { 5: { kind: 'attribute' } },
  attribute: {
    5: { kind: 'tensor', isOne: true },
    6: { kind: 'graph', isOne: true },
    10: { kind: 'tensor' },
    11: { kind: 'graph' },
    22: { kind: 'sparse', isOne: true },
    23: { kind: 'sparse' },
  },
  sparse: { 1: { kind: 'tensor', isOne: true }, 2: { kind: 'tensor', isOne: true } },
};
const TENSOR = { externalData: 13, dataLocation: 14 } as const;
const DEFAULT = 0;
/** The data is in another file. */
export const EXTERNAL = 1;
const LOCATION = 'location';
const ENTRY = { key: 1, value: 2 } as const;

/**
 * Returns the names of the files with a model's weights, each with its minimum size. Weights are skipped, not read.
 *
 * @param file a whole ONNX model of `size` bytes
 * @see https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
 */
export function externalFiles(file: number, size: number): ReadonlyMap<string, number> {
  const read = createReader(file);
  const files = new Map<string, number>();
  for (const tensor of tensorsIn(read, 'model', new Message(read, { start: 0, end: size }))) {
    const { [LOCATION]: location, offset = '0', length = '0' } = entriesOf(tensor);
    if (location === undefined) continue;
    files.set(location, Math.max(files.get(location) ?? 0, Number(offset) + Number(length)));
  }
  return files;
}

/** Returns the sorted paths of the files with the weights of the model at `path`. */
export function externalFilesOf(path: string): string[] {
  const file = openSync(path, 'r');
  try {
    return [...externalFiles(file, fstatSync(file).size).keys()].toSorted().map((name) => resolve(dirname(path), name));
  } finally {
    closeSync(file);
  }
}

function* tensorsIn(read: Read, kind: string, message: Message): Generator<Message> {
  const within = WITHIN[kind] ?? {};
  const leading = message.fields().filter((field) => field.wireType === LENGTH_DELIMITED && field.number in within);
  for (const [number, fields] of Map.groupBy(leading, (field) => field.number)) {
    const { kind: inner = '', isOne } = within[number] ?? {};
    for (const ranges of isOne ? [fields] : fields.map((field) => [field])) {
      if (!ranges.some((range) => mayNameFile(read, range))) continue;
      const found = new Message(read, ...ranges);
      if (inner === 'tensor') yield found;
      else yield* tensorsIn(read, inner, found);
    }
  }
}

/** Returns false for most nodes and small tensors by one read: they name no file. */
function mayNameFile(read: Read, { start, end }: { readonly start: number; readonly end: number }): boolean {
  return end - start > WINDOW_BYTES || read(start, end - start).includes(LOCATION);
}

/** Returns the entries that locate a tensor's external data, or no entries for another tensor. */
function entriesOf(tensor: Message): { readonly [key: string]: string | undefined } {
  const place = tensor.int32s(TENSOR.dataLocation).findLast((value) => value === DEFAULT || value === EXTERNAL);
  // A tensor may keep entries after its data was moved into the model.
  if (place !== EXTERNAL) return {};
  const entries = tensor.messages(TENSOR.externalData).map((entry) => [entry.text(ENTRY.key), entry.text(ENTRY.value)]);
  return Object.fromEntries(entries.filter(([, value]) => value !== ''));
}

/**
 * Default locale of ONNX Runtime on Linux.
 * @see https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/text/string_normalizer.cc
 */
const DEFAULT_LOCALE = 'en_US.UTF-8';

/** Returns the locales that the machine must have. A StringNormalizer opens one if it changes or ignores case. */
export function localesOf(path: string): string[] {
  const localeOf = (node: GraphNode): string[] => {
    const changesCase = !['', 'NONE'].includes(node.text('case_change_action'));
    const ignoresCase = node.has('stopwords') && node.int('is_case_sensitive', 0) !== 1;
    return changesCase || ignoresCase ? [node.text('locale') || DEFAULT_LOCALE] : [];
  };
  return withGraph(path, (graph) =>
    graph.allNodes().flatMap((node) => (node.operator === 'StringNormalizer' ? localeOf(node) : [])),
  );
}

/** Element types that ONNX Runtime for Node does not support, by number. @see onnx.proto, TensorProto.DataType */
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
