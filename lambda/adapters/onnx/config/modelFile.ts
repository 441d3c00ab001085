import { type FileHandle, open } from 'node:fs/promises';

/** Field numbers and wire types: https://protobuf.dev/programming-guides/encoding/ */
const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;
const GRAPH_FIELD = 7;
const OPSET_FIELD = 8;
const MAX_HEADER_BYTES = 20;

/**
 * Checks cheaply, without loading it, that a file is a whole ONNX model: reads the outermost fields of the
 * `ModelProto` and skips over their contents.
 *
 * @throws Error naming the file when it is missing, empty, cut short or not ONNX
 * @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */
export async function checkModelFile(path: string): Promise<void> {
  const file = await openModel(path);
  try {
    const found = await file.stat();
    if (!found.isFile()) {
      throw new Error(`${path}: expected an ONNX model, got a folder; put the file model.onnx there`);
    }
    const { size } = found;
    if (size === 0) throw new Error(`${path}: expected an ONNX model, got an empty file; export the model again`);
    await checkFields(file, size, path);
  } finally {
    await file.close();
  }
}

async function openModel(path: string): Promise<FileHandle> {
  try {
    return await open(path);
  } catch (cause) {
    throw new Error(`${path}: expected an ONNX model, got no file that can be opened; put model.onnx there`, { cause });
  }
}

async function checkFields(file: FileHandle, size: number, path: string): Promise<void> {
  const notOnnx = () =>
    new Error(
      `${path}: expected an ONNX model, got a file that is not ONNX; export the model anew, as with torch.onnx`,
    );
  const header = Buffer.alloc(MAX_HEADER_BYTES);
  const fields = new Set<number>();
  let position = 0;
  while (position < size) {
    const { bytesRead } = await file.read(header, 0, MAX_HEADER_BYTES, position);
    const tag = readVarint(header, 0, bytesRead);
    if (tag === undefined || tag.value >> 3 === 0) throw notOnnx();
    const value = readVarint(header, tag.bytes, bytesRead);
    const contentBytes = bytesAfterTag(tag.value & 7, value);
    if (contentBytes === undefined) throw notOnnx();
    if ((tag.value & 7) === LENGTH_DELIMITED) fields.add(tag.value >> 3);
    position += tag.bytes + contentBytes;
  }
  if (!fields.has(GRAPH_FIELD)) throw notOnnx();
  if (position > size || !fields.has(OPSET_FIELD)) {
    const whole = Math.max(position, size + 1);
    throw new Error(`${path}: expected at least ${whole} bytes, got ${size}; the file was cut short, copy it again`);
  }
}

interface Varint {
  readonly value: number;
  readonly bytes: number;
}

function bytesAfterTag(wireType: number, value: Varint | undefined): number | undefined {
  if (wireType === FIXED64) return 8;
  if (wireType === FIXED32) return 4;
  if (value === undefined) return undefined;
  if (wireType === VARINT) return value.bytes;
  return wireType === LENGTH_DELIMITED ? value.bytes + value.value : undefined;
}

function readVarint(buffer: Buffer, start: number, end: number): Varint | undefined {
  let value = 0;
  for (let i = start; i < end && i < start + 10; i++) {
    const byte = buffer[i] as number;
    value += (byte & 0x7f) * 2 ** (7 * (i - start));
    if (byte < 0x80) return { value, bytes: i - start + 1 };
  }
  return undefined;
}
