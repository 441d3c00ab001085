import { allocate, type TensorData } from './datatype.ts';
import { elementCount, type Tensor, viewOf } from './tensor.ts';

/** Stretches of fewer elements are copied one by one: a view of each would take longer than its elements. */
const SHORT_STRETCH = 16;

/** `dims` with the one of axis `from` standing at `to`; the others keep their order. */
export function moveDim<T>(dims: readonly T[], from: number, to: number): readonly T[] {
  return from === to ? dims : dims.toSpliced(from, 1).toSpliced(to, 0, dims[from] as T);
}

/** Whether the elements lie in the same order when axis `from` of `shape` stands at `to`, as they do where there is no other. */
export function keepsOrder(shape: readonly number[], from: number, to: number): boolean {
  return from === to || shape[from] === 1 || elementCount(passedBy(shape, from, to)) <= 1;
}

/** The sizes of the axes that change sides with axis `from`. */
function passedBy(shape: readonly number[], from: number, to: number): readonly number[] {
  return from < to ? shape.slice(from + 1, to + 1) : shape.slice(to, from);
}

/**
 * The tensor with its axis `from` moved to `to`, as `numpy.moveaxis`. Shares its data where the elements keep their
 * order, else has a copy of them.
 *
 * @param room makes the array that the copy is in
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

/** Elements `[…, first, second, inner]`, of which `first` and `second` change places. */
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
  // As bits: a BigInt64Array makes a BigInt of every element that is read, and a NaN may lose its payload.
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
