import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';
import { externalFiles } from './externalData.ts';
import { LENGTH_DELIMITED, MOST_HEADER_BYTES, readField } from './protobuf.ts';

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
  const header = Buffer.alloc(MOST_HEADER_BYTES);
  const fields = new Set<number>();
  let position = 0;
  while (position < size) {
    const bytesRead = readSync(file, header, 0, MOST_HEADER_BYTES, position);
    const field = readField(header, 0, bytesRead);
    if (field === undefined) throw notOnnx(file, path);
    if (field.wireType === LENGTH_DELIMITED) fields.add(field.number);
    position += field.end;
  }
  if (!fields.has(GRAPH_FIELD)) throw notOnnx(file, path);
  if (position > size || !fields.has(OPSET_FIELD)) {
    const whole = Math.max(position, size + 1);
    throw new Error(`${path}: expected at least ${whole} bytes, got ${size}; the file was cut short, copy it again`);
  }
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
    const found = statSync(beside, { throwIfNoEntry: false });
    if (found?.isFile() !== true) {
      throw new Error(
        `${path}: expected its weights in the file '${location}' beside it, got none; put it there, or export the ` +
          'model as one file',
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
  return start.toString('latin1') === LFS_POINTER
    ? new Error(`${path}: expected an ONNX model, got a file that is a pointer of Git LFS to it; run: git lfs pull`)
    : new Error(
        `${path}: expected an ONNX model, got a file that is not ONNX; export the model anew, as with torch.onnx`,
      );
}
