import { addAbortSignal, type Readable } from 'node:stream';
import { type Failure, failure, messageOf, preview } from '../../lambda/core/failure.ts';
import { shapeInModel, type TensorSpec } from '../../lambda/core/model.ts';
import { allocate, DATATYPES, type Datatype, elementCount, type TypedArray } from '../../lambda/core/tensor.ts';
import { cellReader } from '../../lambda/jobs/rowRequests.ts';
import { type Table, TableRow } from '../../lambda/jobs/tableRows.ts';
import { type InputFile, MAX_LINE_BYTES } from '../textFiles.ts';
import type { RowBatch, RowOptions } from './rowBatches.ts';

/**
 * The rows of a NumPy array, those along its first axis, for a model with one input. Elements of another type than the
 * input's are passed on as numbers: the core says which of them fit.
 *
 * @throws Error when the array cannot be read, or is not of the model's shape
 */
export async function* npyBatches(
  { stream, bytes }: InputFile,
  { model, name, limits }: RowOptions,
  signal: AbortSignal,
  skip: number,
): AsyncGenerator<RowBatch> {
  const [spec, ...others] = model.inputs;
  if (spec === undefined || others.length > 0) {
    const names = model.inputs.map((input) => input.name).join(', ');
    throw new Error(`${name}: expected a model with one input for an array, got ${names}; use CSV or plain objects`);
  }
  try {
    const take = takerOf(addAbortSignal(signal, stream));
    const header = await readHeader(take, bytes);
    const { shape, itemBytes } = header;
    const tableOf = tablesOf(spec, header);
    const rowBytes = elementCount(shape.slice(1)) * itemBytes;
    if (rowBytes > MAX_LINE_BYTES) throw new Error(`expected rows of at most ${MAX_LINE_BYTES} bytes, got ${rowBytes}`);
    const rows = shape[0] as number;
    const max = Math.max(1, Math.min(limits.lines, Math.floor(limits.characters / rowBytes)));
    for (let row = 0; row < rows && !signal.aborted; row += max) {
      const count = Math.min(max, rows - row);
      const chunk = await take(count * rowBytes);
      if (chunk.length < count * rowBytes) throw cutShort(`${rows} rows`);
      if (row + count <= skip) continue;
      const { table, failed } = tableOf(chunk, count);
      const all = Array.from({ length: count }, (_, at) => new TableRow(String(row + at), table, at, failed.get(at)));
      yield { rows: all.slice(Math.max(0, skip - row)), share: bytes && (row + count) / rows };
    }
    // Of stdin the size is not known before.
    if (!signal.aborted && (await take(1)).length > 0) {
      throw new Error(`expected one array of ${rows} rows, got more after it; save one array, alone in its file`);
    }
  } catch (error) {
    if (!signal.aborted) throw new Error(`${name}: ${messageOf(error)}`, { cause: error });
  }
}

/** Takes so many bytes off a stream, or what is left of it. */
function takerOf(stream: Readable): (bytes: number) => Promise<Buffer> {
  const chunks = stream[Symbol.asyncIterator]();
  let rest = Buffer.alloc(0);
  return async (bytes) => {
    const parts = [rest];
    let length = rest.length;
    while (length < bytes) {
      const { done, value } = await chunks.next();
      if (done === true) break;
      parts.push(value);
      length += value.length;
    }
    const all = parts.length === 1 ? rest : Buffer.concat(parts);
    rest = all.subarray(Math.min(bytes, all.length));
    return all.subarray(0, bytes);
  };
}

async function readHeader(take: (bytes: number) => Promise<Buffer>, fileBytes: number | undefined): Promise<NpyHeader> {
  const start = await take(MIN_NPY_BYTES + 2);
  const headerBytes = npyHeaderBytes(start);
  const header = Buffer.concat([start, await take(headerBytes - start.length)]);
  if (header.length < headerBytes) throw cutShort('a header');
  const found = readNpyHeader(header);
  const expected = headerBytes + elementCount(found.shape) * found.itemBytes;
  if (fileBytes !== undefined && fileBytes !== expected) {
    throw new Error(
      `expected ${expected} bytes of a npy file with an array of (${found.shape.join(', ')}), got ${fileBytes}; ` +
        (fileBytes < expected ? 'the file was cut short, copy it again' : 'save one array, alone in its file'),
    );
  }
  return found;
}

/** Returns what makes a table of the bytes of some rows. Elements that the input cannot hold are failures, by row. */
function tablesOf(spec: TensorSpec, { datatype, shape }: NpyHeader) {
  const rowShape = rowShapeOf(spec, shape);
  const elements = elementCount(rowShape);
  const input = { input: spec.name, datatype: spec.datatype, shape: shapeInModel(spec, [1, ...rowShape]) };
  if (DATATYPES[datatype].kind !== 'boolean' && DATATYPES[spec.datatype].kind === 'boolean') {
    throw new Error(`input '${spec.name}': expected an array for ${spec.datatype}, got one of ${datatype}; convert it`);
  }
  const read = cellReader(spec.datatype, undefined);
  return (bytes: Buffer, rows: number): { readonly table: Table; readonly failed: ReadonlyMap<number, Failure> } => {
    // An array of its own memory: rows may begin anywhere in what was read.
    const found = allocate(datatype, rows * elements) as TypedArray;
    bytes.copy(Buffer.from(found.buffer, found.byteOffset, found.byteLength));
    const failed = new Map<number, Failure>();
    if (datatype === spec.datatype)
      return { table: { inputs: [{ input, data: found, width: elements }], kept: [] }, failed };
    const data = allocate(spec.datatype, rows * elements);
    for (let at = 0; at < found.length; at++) {
      const value = read(found[at]);
      if (value !== undefined) data[at] = value as never;
      else failed.set(Math.floor(at / elements), unfit(spec, at % elements, found[at]));
    }
    return { table: { inputs: [{ input, data, width: elements }], kept: [] }, failed };
  };
}

function unfit({ name, datatype }: TensorSpec, element: number, value: unknown): Failure {
  const message = `input '${name}': expected values of ${datatype}, got ${preview(value)} at element ${element}; fix that row`;
  return failure('INVALID_DATA', message);
}

/** Sizes of a row: the array's own, or those of the input where the array has them all in one axis, or none. */
function rowShapeOf({ name, shape, datatype }: TensorSpec, found: readonly number[]): readonly number[] {
  const wanted = shape.slice(1);
  const got = found.slice(1);
  const fits = (size: number, axis: number): boolean => typeof wanted[axis] === 'string' || wanted[axis] === size;
  const isAlike = got.length === wanted.length && got.every(fits);
  const fixed = wanted.every((size) => typeof size === 'number');
  const isFlat = got.length < 2 && fixed && elementCount(wanted as number[]) === elementCount(got);
  if (datatype === 'BYTES') {
    throw new Error(`input '${name}': expected texts, got an array of numbers; use CSV or plain objects`);
  }
  if (isAlike && elementCount(got) > 0) return got;
  if (isFlat) return wanted as number[];
  throw new Error(
    `input '${name}': expected an array of (rows${wanted.map((size) => `, ${size}`).join('')}), got (${found.join(', ')}); ` +
      'reshape it',
  );
}

/** What the header of a .npy file says. */
interface NpyHeader {
  readonly datatype: Datatype;
  readonly itemBytes: number;
  readonly shape: readonly number[];
}

/** The first bytes of every .npy file. @see https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
const MAGIC = Buffer.from('\x93NUMPY', 'latin1');
const ZIP_MAGIC = Buffer.from('PK');
/** Magic, version, and the length of the rest in 2 bytes; from version 2 on in 4. */
const MIN_NPY_BYTES = 10;
/** As NumPy itself reads at most, unless it is told otherwise. @see https://numpy.org/doc/stable/reference/generated/numpy.load.html */
const MAX_HEADER_BYTES = 10_000 + 12;

/** How many bytes come before the array. @throws Error when a file does not begin as a .npy file */
function npyHeaderBytes(start: Buffer): number {
  if (!start.subarray(0, MAGIC.length).equals(MAGIC)) {
    const isZip = start.subarray(0, ZIP_MAGIC.length).equals(ZIP_MAGIC);
    throw new Error(
      `expected an array as numpy.save writes it, got ${isZip ? 'a zip, such as numpy.savez writes' : 'something else'}; ` +
        'save one array with numpy.save',
    );
  }
  const version = start[MAGIC.length] ?? 0;
  if (start.length < MIN_NPY_BYTES + 2) throw cutShort('a header');
  if (version < 1 || version > 3) {
    throw new Error(`expected version 1, 2 or 3 of the npy format, got ${version}; save it with a current NumPy`);
  }
  const bytes = version === 1 ? 10 + start.readUInt16LE(8) : 12 + start.readUInt32LE(8);
  if (bytes > MAX_HEADER_BYTES) {
    throw new Error(
      `expected a header of at most ${MAX_HEADER_BYTES} bytes, got ${bytes}; save the array with numpy.save`,
    );
  }
  return bytes;
}

function cutShort(expected: string): Error {
  return new Error(`expected ${expected} of a npy file, got fewer bytes; the file was cut short, copy it again`);
}

/** By NumPy's letter, with which our own names begin, and the bytes of an element: `u1` is UINT8, `f4` FP32. */
const DATATYPE_BY_TYPE: ReadonlyMap<string, Datatype> = new Map(
  (Object.keys(DATATYPES) as Datatype[]).flatMap((name) => {
    const info = DATATYPES[name];
    return info.kind === 'string' ? [] : [[name.charAt(0).toLowerCase() + info.array.BYTES_PER_ELEMENT, name]];
  }),
);

/**
 * @param header all bytes that {@link npyHeaderBytes} counts
 * @throws Error saying what of it cannot be read, and how to save the array instead
 */
function readNpyHeader(header: Buffer): NpyHeader {
  const text = header.toString((header[MAGIC.length] ?? 1) > 2 ? 'utf8' : 'latin1', MIN_NPY_BYTES);
  const [, descr] = /'descr':\s*'([^']*)'/.exec(text) ?? [];
  const [, fortran] = /'fortran_order':\s*(True|False)/.exec(text) ?? [];
  const [, sizes] = /'shape':\s*\(([^)]*)\)/.exec(text) ?? [];
  if (fortran === undefined || sizes === undefined)
    throw new Error('expected the header of a npy file, got another text');
  const shape = sizes
    .split(',')
    .map((size) => size.trim().replace(/L$/, ''))
    .filter((size) => size !== '')
    .map((size) => (/^\d+$/.test(size) ? Number(size) : Number.NaN));
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw new Error(`expected the shape of an array, got (${sizes})`);
  }
  const { datatype, itemBytes } = typeOf(descr);
  if (shape.length === 0) throw new Error('expected an array of rows, got a single value; save array.reshape(1, -1)');
  if (fortran === 'True' && shape.length > 1) {
    throw new Error(
      'expected an array in C order, whose rows lie together, got Fortran order; save numpy.ascontiguousarray(array)',
    );
  }
  return { datatype, itemBytes, shape };
}

function typeOf(descr: string | undefined): Pick<NpyHeader, 'datatype' | 'itemBytes'> {
  if (descr === undefined) throw unreadable('records of several fields', 'save one field, such as array["name"]');
  const [, order = '', type = '', bytes = ''] = /^([<>=|]?)([a-zA-Z])(\d*)$/.exec(descr) ?? [];
  if (type === 'O') throw unreadable('Python objects, which only Python can read', 'save array.astype("float32")');
  if (type === 'U' || type === 'S') throw unreadable(`texts ('${descr}')`, 'give them as CSV or plain objects');
  const datatype = DATATYPE_BY_TYPE.get(`${type}${bytes}`);
  if (datatype === undefined) throw unreadable(`'${descr}'`, 'save array.astype("float32")');
  if (order === '>' && bytes !== '1') {
    throw unreadable(`big-endian ones ('${descr}')`, `save array.astype("<${type}${bytes}")`);
  }
  return { datatype, itemBytes: Number(bytes) };
}

function unreadable(got: string, cure: string): Error {
  return new Error(`expected an array of booleans, integers or floats, little-endian, got ${got}; ${cure}`);
}
