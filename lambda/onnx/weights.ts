import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, relative } from 'node:path';
import { hasCode } from '../core/failure.ts';
import { EXTERNAL, externalFilesOf } from './modelFile.ts';
import {
  copyOf,
  createReader,
  type Field,
  fieldsOf,
  isAt,
  lengthDelimited,
  type Read,
  rewrite,
  varint,
} from './protobuf.ts';

/*
 * Separates the weights of large models from the graph when they are published or put into images, because ONNX Runtime
 * maps a file of weights instead of reading it twice.
 *
 *   model.onnx: graph ─ tensor ─ raw_data   ──>   model.onnx: graph ─ tensor ─ location, offset, length
 *                                                 model.onnx.data: the same bytes, each tensor at a page boundary
 *
 * The digest of a model is that of the second form, so that both forms have the same digest.
 *
 * @see docs/adr/0050-weights-are-mapped.md
 */

/** Minimum size of all tensors to move. A smaller model opens quickly anyway. */
const MIN_BYTES = 16 * 1024 * 1024;
/** Minimum size of a tensor to move. ONNX Runtime reads shapes and indexes while it analyzes the graph. */
const MIN_TENSOR_BYTES = 64 * 1024;
/** Largest page size of the processors on AWS. */
const PAGE_BYTES = 64 * 1024;

interface Apart {
  /** Content of its `model.onnx`. */
  readonly graph: Buffer;
  /** Ranges of the weights in the source file, and their new offsets. */
  readonly weights: readonly { readonly start: number; readonly end: number; readonly offset: number }[];
}

/** @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const MODEL_GRAPH = 7;
const GRAPH_INITIALIZER = 5;
const TENSOR = { rawData: 9, externalData: 13, dataLocation: 14 } as const;

export function weightsPath(modelPath: string): string {
  return `${modelPath}.data`;
}

/** Returns true if its digest takes longer than opening it may. */
export function isLarge(path: string): boolean {
  const bytes = [path, ...externalFilesOf(path)].reduce((sum, file) => sum + statSync(file).size, 0);
  return bytes >= MIN_BYTES;
}

/** Returns undefined if the model stays as it is: it is small, or its weights are already in other files. */
function planApart(path: string): Apart | undefined {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const isApart = externalFilesOf(path).length > 0 || existsSync(weightsPath(path));
    if (size < MIN_BYTES || isApart) return undefined;
    const read = createReader(file);
    // A model whose bytes are elsewhere, such as in attributes of trees, is not copied.
    if (rawBytes(read, size) < MIN_BYTES) return undefined;
    const weights: Apart['weights'][number][] = [];
    const move = (tensor: Field): Buffer | undefined => {
      const raw = rawDataOf(read, tensor);
      if (raw === undefined) return undefined;
      const before = weights.at(-1);
      const end = before === undefined ? 0 : before.offset + before.end - before.start;
      const offset = Math.ceil(end / PAGE_BYTES) * PAGE_BYTES;
      weights.push({ start: raw.start, end: raw.end, offset });
      return tensorApart(read, tensor, basename(weightsPath(path)), offset, raw.end - raw.start);
    };
    const graph = rewrite(read, 0, size, (field) =>
      isAt(field, MODEL_GRAPH)
        ? rewrite(read, field.start, field.end, (inner) => (isAt(inner, GRAPH_INITIALIZER) ? move(inner) : undefined))
        : undefined,
    );
    return { graph, weights };
  } finally {
    closeSync(file);
  }
}

/** Returns the range of a tensor's bytes to move, or undefined if it stays. */
function rawDataOf(read: Read, tensor: Field): Field | undefined {
  const raw = [...fieldsOf(read, tensor)].findLast((field) => isAt(field, TENSOR.rawData));
  return raw === undefined || raw.end - raw.start < MIN_TENSOR_BYTES ? undefined : raw;
}

function rawBytes(read: Read, size: number): number {
  let bytes = 0;
  for (const graph of fieldsOf(read, { start: 0, end: size })) {
    if (!isAt(graph, MODEL_GRAPH)) continue;
    for (const field of fieldsOf(read, graph)) {
      const raw = isAt(field, GRAPH_INITIALIZER) ? rawDataOf(read, field) : undefined;
      if (raw !== undefined) bytes += raw.end - raw.start;
    }
  }
  return bytes;
}

function tensorApart(read: Read, tensor: Field, location: string, offset: number, length: number): Buffer {
  const entries = Object.entries({ location, offset, length }).map(([key, value]) =>
    lengthDelimited(
      TENSOR.externalData,
      Buffer.concat([lengthDelimited(1, Buffer.from(key)), lengthDelimited(2, Buffer.from(`${value}`))]),
    ),
  );
  const others = without(read, tensor, [TENSOR.rawData, TENSOR.dataLocation]);
  return Buffer.concat([others, ...entries, varint(TENSOR.dataLocation << 3), varint(EXTERNAL)]);
}

function without(read: Read, { start, end }: Field, numbers: readonly number[]): Buffer {
  const kept: Buffer[] = [];
  let at = start;
  for (const field of fieldsOf(read, { start, end })) {
    if (!numbers.includes(field.number)) kept.push(copyOf(read, at, field.end));
    at = field.end;
  }
  return Buffer.concat(kept);
}

/**
 * Copies a large model with its weights separate from its graph.
 *
 * @param to path of its `.onnx` file; the weights go beside it
 * @returns false if the model is small or its weights are already separate: the caller copies it unchanged
 * @throws Error naming the file if there is no room, or it cannot be written
 */
export function storeApart(from: string, to: string): boolean {
  const apart = planApart(from);
  if (apart === undefined) return false;
  const source = openSync(from, 'r');
  const before = statSync(from).mtimeMs;
  try {
    writeAll(to, [apart.graph]);
    writeAll(weightsPath(to), chunksOf(source, apart));
    if (statSync(from).mtimeMs !== before) throw new Error(CHANGED);
    return true;
  } finally {
    closeSync(source);
  }
}

const CHUNK_BYTES = 1024 * 1024;
const CHANGED = 'expected the model not to change while it is copied, it did; try again';

function* chunksOf(source: number, { weights }: Apart): Generator<Buffer> {
  let at = 0;
  for (const { start, end, offset } of weights) {
    yield Buffer.alloc(offset - at);
    for (let position = start; position < end; ) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, end - position));
      const bytes = readSync(source, chunk, 0, chunk.length, position);
      if (bytes === 0) throw new Error(CHANGED);
      yield chunk.subarray(0, bytes);
      position += bytes;
    }
    at = offset + end - start;
  }
}

function writeAll(path: string, chunks: Iterable<Buffer>): void {
  try {
    const file = openSync(path, 'w');
    try {
      for (const chunk of chunks) {
        for (let written = 0; written < chunk.length; ) written += writeSync(file, chunk, written);
      }
    } finally {
      closeSync(file);
    }
  } catch (cause) {
    if (!hasCode(cause, 'ENOSPC')) throw cause;
    throw new Error(
      `${path}: expected room for the model's weights, got a full disk; free as much space as the model takes`,
      {
        cause,
      },
    );
  }
}

/**
 * Returns the SHA-256 of a model: of its `.onnx` file, followed by the name, size and content of each file of weights.
 * A large model is hashed as if its weights were separate. A gigabyte takes one to two seconds, without blocking the
 * event loop.
 *
 * @param path of a whole ONNX model
 * @returns `sha256:` and 64 digits
 * @throws Error of the system if a file cannot be read
 */
export async function modelDigest(path: string): Promise<string> {
  const sha256 = createHash('sha256');
  const apart = planApart(path);
  const begin = (name: string, bytes: number): void => void sha256.update(`\0${name}\0${bytes}\0`);
  if (apart === undefined) {
    // Synchronous for small files: each asynchronous step would wait for other work of the start.
    const addFile = isLarge(path) ? add : (file: string) => void sha256.update(readFileSync(file));
    await addFile(path);
    for (const file of externalFilesOf(path)) {
      begin(relative(dirname(path), file), statSync(file).size);
      await addFile(file);
    }
  } else {
    sha256.update(apart.graph);
    const last = apart.weights.at(-1);
    begin(basename(weightsPath(path)), last === undefined ? 0 : last.offset + last.end - last.start);
    let at = 0;
    for (const { start, end, offset } of apart.weights) {
      sha256.update(Buffer.alloc(offset - at));
      await add(path, { start, end: end - 1 });
      at = offset + end - start;
    }
  }
  return `sha256:${sha256.digest('hex')}`;

  async function add(file: string, range?: { readonly start: number; readonly end: number }): Promise<void> {
    for await (const chunk of createReadStream(file, { ...range, highWaterMark: CHUNK_BYTES })) sha256.update(chunk);
  }
}
