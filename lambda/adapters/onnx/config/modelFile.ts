import { type FileHandle, open } from 'node:fs/promises';
import { LENGTH_DELIMITED, MOST_HEADER_BYTES, readField } from './protobuf.ts';

/** Fields of a `ModelProto`. */
const GRAPH_FIELD = 7;
const OPSET_FIELD = 8;

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
  const header = Buffer.alloc(MOST_HEADER_BYTES);
  const fields = new Set<number>();
  let position = 0;
  while (position < size) {
    const { bytesRead } = await file.read(header, 0, MOST_HEADER_BYTES, position);
    const field = readField(header, 0, bytesRead);
    if (field === undefined) throw notOnnx();
    if (field.wireType === LENGTH_DELIMITED) fields.add(field.number);
    position += field.end;
  }
  if (!fields.has(GRAPH_FIELD)) throw notOnnx();
  if (position > size || !fields.has(OPSET_FIELD)) {
    const whole = Math.max(position, size + 1);
    throw new Error(`${path}: expected at least ${whole} bytes, got ${size}; the file was cut short, copy it again`);
  }
}
