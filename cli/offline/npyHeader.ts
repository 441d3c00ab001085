import type { Datatype } from '../../lambda/core/tensor.ts';

/** What the header of a .npy file says. */
export interface NpyHeader {
  readonly datatype: Datatype;
  readonly itemBytes: number;
  readonly shape: readonly number[];
}

/** The first bytes of every .npy file. @see https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
const MAGIC = Buffer.from('\x93NUMPY', 'latin1');
const ZIP_MAGIC = Buffer.from('PK');
/** Magic, version, and the length of the rest in 2 bytes; from version 2 on in 4. */
export const LEAST_NPY_BYTES = 10;
const MOST_HEADER_BYTES = 1024 * 1024;

/** How many bytes come before the array. @throws Error when a file does not begin as a .npy file */
export function npyHeaderBytes(start: Buffer): number {
  if (!start.subarray(0, MAGIC.length).equals(MAGIC)) {
    const isZip = start.subarray(0, ZIP_MAGIC.length).equals(ZIP_MAGIC);
    throw new Error(
      `expected an array as numpy.save writes it, got ${isZip ? 'a zip, such as numpy.savez writes' : 'something else'}; ` +
        'save one array with numpy.save',
    );
  }
  const version = start[MAGIC.length] ?? 0;
  if (start.length < LEAST_NPY_BYTES + 2) throw cutShort('a header');
  if (version < 1 || version > 3) {
    throw new Error(`expected version 1, 2 or 3 of the npy format, got ${version}; save it with a current NumPy`);
  }
  const bytes = version === 1 ? 10 + start.readUInt16LE(8) : 12 + start.readUInt32LE(8);
  if (bytes > MOST_HEADER_BYTES)
    throw new Error(`expected a header of at most ${MOST_HEADER_BYTES} bytes, got ${bytes}`);
  return bytes;
}

export function cutShort(expected: string): Error {
  return new Error(`expected ${expected} of a npy file, got fewer bytes; the file was cut short, copy it again`);
}

/** By NumPy's letter and the bytes of an element. */
const DATATYPE_BY_TYPE: Readonly<Record<string, Datatype>> = {
  b1: 'BOOL',
  u1: 'UINT8',
  u2: 'UINT16',
  u4: 'UINT32',
  u8: 'UINT64',
  i1: 'INT8',
  i2: 'INT16',
  i4: 'INT32',
  i8: 'INT64',
  f2: 'FP16',
  f4: 'FP32',
  f8: 'FP64',
};

/**
 * @param header all bytes that {@link npyHeaderBytes} counts
 * @throws Error saying what of it cannot be read, and how to save the array instead
 */
export function readNpyHeader(header: Buffer): NpyHeader {
  const text = header.toString((header[MAGIC.length] ?? 1) > 2 ? 'utf8' : 'latin1', LEAST_NPY_BYTES);
  const [, descr] = /'descr':\s*'([^']*)'/.exec(text) ?? [];
  const [, fortran] = /'fortran_order':\s*(True|False)/.exec(text) ?? [];
  const [, sizes] = /'shape':\s*\(([^)]*)\)/.exec(text) ?? [];
  if (fortran === undefined || sizes === undefined)
    throw new Error('expected the header of a npy file, got another text');
  const shape = sizes
    .split(',')
    .map((size) => size.trim().replace(/L$/, ''))
    .filter((size) => size !== '')
    .map(Number);
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
  const datatype = DATATYPE_BY_TYPE[`${type}${bytes}`];
  if (datatype === undefined) throw unreadable(`'${descr}'`, 'save array.astype("float32")');
  if (order === '>' && bytes !== '1') {
    throw unreadable(`big-endian ones ('${descr}')`, `save array.astype("<${type}${bytes}")`);
  }
  return { datatype, itemBytes: Number(bytes) };
}

function unreadable(got: string, cure: string): Error {
  return new Error(`expected an array of booleans, integers or floats, little-endian, got ${got}; ${cure}`);
}
