/** Named tensor, row-major: the length of `data` is the product of `shape`. */
export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

/** Returns the size of a text in characters, or of tensors in bytes. A character of an element counts as a byte. */
export function sizeOf(value: string | readonly Tensor[]): number {
  if (typeof value === 'string') return value.length;
  let size = 0;
  for (const { data } of value) {
    if (!Array.isArray(data)) size += data.byteLength;
    else for (const element of data) size += element.length;
  }
  return size;
}

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

export function elementsPerRow(shape: readonly number[]): number {
  return elementCount(shape.slice(1));
}

export function withRows(shape: readonly number[], rows: number): number[] {
  return withSize(shape, 0, rows);
}

export function withSize(shape: readonly number[], axis: number, size: number): number[] {
  return shape.with(axis, size);
}

/** Returns elements `from` to `to`, without a copy for a typed array. */
export function viewOf(data: TensorData, from: number, to: number): TensorData {
  if (from === 0 && to === data.length) return data;
  return Array.isArray(data) ? data.slice(from, to) : data.subarray(from, to);
}

/** Copies all of `source` into `target` from element `offset` on. Both have the same datatype. */
export function copyInto(target: TensorData, offset: number, source: TensorData): void {
  if (Array.isArray(target)) {
    for (let i = 0; i < source.length; i++) target[offset + i] = source[i] as string;
  } else if (target instanceof BigInt64Array || target instanceof BigUint64Array) {
    target.set(source as BigInt64Array, offset);
  } else {
    target.set(source as Float32Array, offset);
  }
}

/** Class `Float16Array`. It is `never` if the `lib` of a program that uses this package is older. */
type Float16Class = typeof globalThis extends { readonly Float16Array: infer Class } ? Class : never;

export type NumericArray =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Float16Class['prototype']
  | Float32Array
  | Float64Array;
export type BigIntArray = BigInt64Array | BigUint64Array;
export type TypedArray = NumericArray | BigIntArray;

/** Row-major elements of a tensor. BOOL is 0 or 1 in a Uint8Array, BYTES are strings. */
export type TensorData = TypedArray | string[];

/** Replacement for `Float16Array` before Node 24. Everything but FP16 works with it. */
class MissingFloat16Array {
  static readonly BYTES_PER_ELEMENT = 2;
  constructor() {
    throw new Error('FP16: expected Node 24 or newer, which has Float16Array, got an older one; update Node');
  }
}

/** Named type, because declaration files spell out inferred types. */
interface Fp16 {
  readonly kind: 'float';
  readonly onnxType: 'float16';
  readonly array: Float16Class;
  readonly min: number;
  readonly max: number;
}

const FP16: Fp16 = {
  kind: 'float',
  onnxType: 'float16',
  array: globalThis.Float16Array ?? (MissingFloat16Array as never),
  min: -65_504,
  max: 65_504,
};

/** Open Inference Protocol datatypes, and their types in ONNX Runtime and JavaScript. */
export const DATATYPES = {
  BOOL: { kind: 'boolean', onnxType: 'bool', array: Uint8Array, min: 0, max: 1 },
  UINT8: { kind: 'integer', onnxType: 'uint8', array: Uint8Array, min: 0, max: 255 },
  UINT16: { kind: 'integer', onnxType: 'uint16', array: Uint16Array, min: 0, max: 65_535 },
  UINT32: { kind: 'integer', onnxType: 'uint32', array: Uint32Array, min: 0, max: 4_294_967_295 },
  UINT64: { kind: 'bigint', onnxType: 'uint64', array: BigUint64Array, min: 0n, max: 2n ** 64n - 1n },
  INT8: { kind: 'integer', onnxType: 'int8', array: Int8Array, min: -128, max: 127 },
  INT16: { kind: 'integer', onnxType: 'int16', array: Int16Array, min: -32_768, max: 32_767 },
  INT32: { kind: 'integer', onnxType: 'int32', array: Int32Array, min: -2_147_483_648, max: 2_147_483_647 },
  INT64: { kind: 'bigint', onnxType: 'int64', array: BigInt64Array, min: -(2n ** 63n), max: 2n ** 63n - 1n },
  FP16,
  FP32: {
    kind: 'float',
    onnxType: 'float32',
    array: Float32Array,
    min: -3.4028234663852886e38,
    max: 3.4028234663852886e38,
  },
  FP64: { kind: 'float', onnxType: 'float64', array: Float64Array, min: -Number.MAX_VALUE, max: Number.MAX_VALUE },
  BYTES: { kind: 'string', onnxType: 'string' },
} as const;

export type Datatype = keyof typeof DATATYPES;

export const DATATYPE_NAMES: readonly string[] = Object.keys(DATATYPES);

export function isDatatype(name: unknown): name is Datatype {
  return typeof name === 'string' && Object.hasOwn(DATATYPES, name);
}

/** Returns the datatype of an ONNX Runtime tensor type, or undefined if there is none (bfloat16, int4, …). */
export function datatypeOfOnnxType(onnxType: string): Datatype | undefined {
  return (Object.keys(DATATYPES) as Datatype[]).find((name) => DATATYPES[name].onnxType === onnxType);
}

/**
 * Returns an array of `length` zeros, or empty strings for BYTES.
 *
 * @throws RangeError if there is no memory for it
 */
export function allocate(datatype: Datatype, length: number): TensorData {
  const info = DATATYPES[datatype];
  try {
    return info.kind === 'string' ? new Array<string>(length).fill('') : new info.array(length);
  } catch (cause) {
    throw new RangeError(`${length} elements of ${datatype} do not fit into memory`, { cause });
  }
}

/** @throws RangeError if there is no memory for it */
export function allocateBuffer(bytes: number): ArrayBuffer {
  try {
    return new ArrayBuffer(bytes);
  } catch (cause) {
    throw new RangeError(`inputs of ${bytes} bytes do not fit into memory`, { cause });
  }
}

/** Datatype and number of elements of an array. */
export interface ArraySize {
  readonly datatype: Datatype;
  readonly length: number;
}

/** Alignment of arrays that share a buffer: a line of the processor's cache. */
const LINE_BYTES = 64;

/**
 * Returns arrays with arbitrary content that share one buffer, because handing over a buffer to another thread takes as
 * long as filling it. Arrays of strings have no buffer.
 *
 * @param memory returns a buffer of that many bytes
 */
export function allocateTogether(
  sizes: readonly ArraySize[],
  memory: (bytes: number) => ArrayBuffer = allocateBuffer,
): TensorData[] {
  const starts: number[] = [];
  let bytes = 0;
  for (const { datatype, length } of sizes) {
    const info = DATATYPES[datatype];
    starts.push(bytes);
    const own = info.kind === 'string' ? 0 : length * info.array.BYTES_PER_ELEMENT;
    bytes += Math.ceil(own / LINE_BYTES) * LINE_BYTES;
  }
  const buffer = memory(bytes);
  return sizes.map(({ datatype, length }, index) => {
    const info = DATATYPES[datatype];
    return info.kind === 'string' ? allocate(datatype, length) : new info.array(buffer, starts[index], length);
  });
}

const SLAB_BYTES = 65_536;
const MAX_BYTES_IN_SLAB = SLAB_BYTES / 8;
let slab = Buffer.from(new ArrayBuffer(SLAB_BYTES));
let slabUsed = 0;

/** Reserves bytes in the slab. @returns their start */
function roomInSlab(bytes: number): number {
  const aligned = Math.ceil(bytes / 8) * 8;
  if (slabUsed + aligned > SLAB_BYTES) {
    slab = Buffer.from(new ArrayBuffer(SLAB_BYTES));
    slabUsed = 0;
  }
  slabUsed += aligned;
  return slabUsed - aligned;
}

/**
 * Allocates like {@link allocate}, for many small arrays that live as long as one invocation. They share buffers,
 * because creating and freeing a buffer takes longer than filling it. Ten thousand requests of 64 floats decode in 6 ms
 * instead of 10 from base64, and in 42 instead of 46 from JSON (two cores, Node 24). Never transfer such an array.
 */
export function allocateFromSlab(datatype: Datatype, length: number): TensorData {
  const info = DATATYPES[datatype];
  if (info.kind === 'string') return allocate(datatype, length);
  const bytes = length * info.array.BYTES_PER_ELEMENT;
  if (bytes > MAX_BYTES_IN_SLAB) return new info.array(length);
  const start = roomInSlab(bytes);
  return new info.array(slab.buffer as ArrayBuffer, start, length);
}

/** Matches characters that Node's decoder misreads, because it uses only the low byte: U+0141 would be `A`, U+0041. */
const BEYOND_LATIN_1 = /[^\0-\xff]/;

/**
 * Decodes `length` elements from base64 into a slab. Returns undefined if they are too many or the text is not base64:
 * the decoder skips other characters, so the number of bytes proves it.
 */
export function base64InSlab(datatype: Datatype, length: number, text: string): TypedArray | undefined {
  const info = DATATYPES[datatype];
  if (info.kind === 'string') return undefined;
  const bytes = length * info.array.BYTES_PER_ELEMENT;
  if (bytes > MAX_BYTES_IN_SLAB || BEYOND_LATIN_1.test(text)) return undefined;
  const start = roomInSlab(bytes);
  if (slab.write(text, start, bytes, 'base64') !== bytes) return undefined;
  return new info.array(slab.buffer as ArrayBuffer, start, length);
}

/** Length up to which elements are copied one by one: creating a view would take longer. */
const SHORT_STRETCH = 16;

/** Moves the dim at `from` to `to`. The others keep their order. */
export function moveDim<T>(dims: readonly T[], from: number, to: number): readonly T[] {
  return from === to ? dims : dims.toSpliced(from, 1).toSpliced(to, 0, dims[from] as T);
}

/** Returns true if moving axis `from` of `shape` to `to` keeps the order of the elements. */
export function keepsOrder(shape: readonly number[], from: number, to: number): boolean {
  return from === to || shape[from] === 1 || elementCount(passedBy(shape, from, to)) <= 1;
}

function passedBy(shape: readonly number[], from: number, to: number): readonly number[] {
  return from < to ? shape.slice(from + 1, to + 1) : shape.slice(to, from);
}

/**
 * Moves axis `from` of a tensor to `to`, like `numpy.moveaxis`. It shares the data if the elements keep their order,
 * else it copies them.
 *
 * @param room allocates the array of the copy
 */
export function moveAxis<T extends Omit<Tensor, 'name'>>(tensor: T, from: number, to: number, room = allocate): T {
  const { shape, datatype, data } = tensor;
  const moved = moveDim(shape, from, to);
  if (keepsOrder(shape, from, to)) return { ...tensor, shape: moved };
  const [size, passed] = [shape[from] as number, elementCount(passedBy(shape, from, to))];
  const [first, second] = from < to ? [size, passed] : [passed, size];
  const copy = room(datatype, data.length);
  exchange(copy, data, { first, second, inner: elementCount(shape.slice(Math.max(from, to) + 1)) });
  return { ...tensor, shape: moved, data: copy };
}

/** Axes `[…, first, second, inner]` of which `first` and `second` are exchanged. */
interface Block {
  readonly first: number;
  readonly second: number;
  readonly inner: number;
}

function exchange(target: TensorData, source: TensorData, block: Block): void {
  if (Array.isArray(target) || Array.isArray(source)) {
    exchangeIn(target as string[], source as string[], block);
    return;
  }
  // Copies bits: reading a BigInt64Array creates a BigInt for each element, and a NaN may lose its payload.
  const Bits = BITS[Math.min(source.BYTES_PER_ELEMENT, 4) as keyof typeof BITS];
  const bitsOf = (data: typeof target): BitArray =>
    new Bits(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength / Bits.BYTES_PER_ELEMENT);
  const inner = (block.inner * source.BYTES_PER_ELEMENT) / Bits.BYTES_PER_ELEMENT;
  exchangeIn(bitsOf(target), bitsOf(source), { ...block, inner });
}

const BITS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array };

type BitArray = Uint8Array | Uint16Array | Uint32Array;

function exchangeIn(target: BitArray | string[], source: BitArray | string[], { first, second, inner }: Block): void {
  const inBlock = first * second * inner;
  let at = 0;
  for (let block = 0; block < source.length; block += inBlock) {
    for (let two = 0; two < second; two++) {
      for (let one = 0; one < first; one++, at += inner) {
        const from = block + (one * second + two) * inner;
        if (inner < SHORT_STRETCH || Array.isArray(target)) {
          for (let index = 0; index < inner; index++) target[at + index] = source[from + index] as never;
        } else target.set(viewOf(source as BitArray, from, from + inner) as BitArray, at);
      }
    }
  }
}

/**
 * Binary tensor contents: base64 of little-endian, row-major elements, as in the proto3 JSON mapping of
 * `ModelInferRequest.raw_input_contents`. A BYTES element is its 4-byte length followed by its UTF-8 bytes.
 *
 * @see https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
 */
export const LENGTH_PREFIX_BYTES = 4;

/** Base64 that is not decoded yet, but checked to hold exactly the elements of the shape. */
export interface Base64Data {
  readonly base64: string;
}

export function isBase64Data(data: TensorData | Base64Data): data is Base64Data {
  return !Array.isArray(data) && !ArrayBuffer.isView(data);
}

/** Characters to check at a time, a multiple of four. */
const CHARACTERS_AT_A_TIME = 64 * 1024;
/** Target of trial decoding, never read. A character beyond ASCII takes two bytes or more. */
const SCRATCH = Buffer.allocUnsafe(CHARACTERS_AT_A_TIME + 4);

/**
 * Returns true if a text is base64 of either alphabet, with or without padding, as in proto3 JSON. Node skips other
 * ASCII characters, so the decoded length reveals them. Decoding takes a thirtieth of the time of a regular expression.
 */
export function isBase64(text: string): boolean {
  if (!isBase64Length(text)) return false;
  let bytes = 0;
  for (let from = 0; from < text.length; from += CHARACTERS_AT_A_TIME) {
    const some = text.length <= CHARACTERS_AT_A_TIME ? text : text.slice(from, from + CHARACTERS_AT_A_TIME);
    if (SCRATCH.write(some) !== some.length) return false;
    bytes += SCRATCH.write(some, 'base64');
  }
  // The sum also reveals padding within the text, which shortens its part.
  return bytes === decodedBytes(text);
}

/** Returns true if base64 can have the text's length, with all of its padding or none. */
export function isBase64Length(text: string): boolean {
  const characters = unpaddedLength(text);
  const padded = characters < text.length;
  return characters % 4 !== 1 && (!padded || text.length % 4 === 0);
}

export function decodedBytes(text: string): number {
  return Math.floor((unpaddedLength(text) * 3) / 4);
}

function unpaddedLength(text: string): number {
  if (text.endsWith('==')) return text.length - 2;
  return text.endsWith('=') ? text.length - 1 : text.length;
}

/** Decodes elements `from` to `to` of `source` into `target` from element `offset` on. */
export function decodeInto(target: TypedArray, offset: number, source: Base64Data, from: number, to: number): void {
  const size = target.BYTES_PER_ELEMENT;
  const room = Buffer.from(target.buffer, target.byteOffset + offset * size, (to - from) * size);
  if (room.length === decodedBytes(source.base64)) {
    room.write(source.base64, 'base64');
    return;
  }
  // Three bytes are four characters: decode the groups with the first to the last wanted byte.
  const firstGroup = Math.floor((from * size) / 3);
  const endGroup = Math.ceil((to * size) / 3);
  const groups = Buffer.from(source.base64.slice(firstGroup * 4, endGroup * 4), 'base64');
  groups.copy(room, 0, from * size - firstGroup * 3);
}

/** Decodes all elements of `source` as `datatype`: not BYTES, and BOOL only if all bytes are known to be 0 or 1. */
export function decodeAll(source: Base64Data, datatype: Datatype, shape: readonly number[]): TensorData {
  const data = allocate(datatype, elementCount(shape));
  if (!Array.isArray(data)) decodeInto(data, 0, source, 0, data.length);
  return data;
}

/** Encodes elements as one entry of `raw_input_contents` or `raw_output_contents`. */
export function encodeRaw(data: TensorData): string {
  if (!Array.isArray(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
  let bytes = 0;
  for (const element of data) bytes += LENGTH_PREFIX_BYTES + Buffer.byteLength(element);
  const contents = Buffer.allocUnsafe(bytes);
  let position = 0;
  for (const element of data) {
    const length = contents.write(element, position + LENGTH_PREFIX_BYTES);
    contents.writeUInt32LE(length, position);
    position += LENGTH_PREFIX_BYTES + length;
  }
  return contents.toString('base64');
}
