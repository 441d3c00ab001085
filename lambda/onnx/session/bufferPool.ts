import { allocate, DATATYPES, type Datatype, type TensorData } from '../../core/tensor.ts';

/** The memory of inputs that earlier runs are done with, for the inputs of later ones. */
export interface BufferPool {
  /** Room for `length` elements, with whatever was in it before. */
  allocate(datatype: Datatype, length: number): TensorData;
  giveBack(buffers: readonly ArrayBuffer[]): void;
}

/** Enough for the inputs of the micro-batches under way on a card; sizes that do not come again are let go. */
const MOST_BUFFERS = 8;

export function createBufferPool(cards: number): BufferPool {
  let free: ArrayBuffer[] = [];
  return {
    allocate(datatype, length) {
      const info = DATATYPES[datatype];
      if (info.kind === 'string') return allocate(datatype, length);
      const bytes = length * info.array.BYTES_PER_ELEMENT;
      const found = free.findIndex((buffer) => buffer.byteLength === bytes);
      const [buffer] = found < 0 ? [] : free.splice(found, 1);
      return buffer === undefined ? allocate(datatype, length) : new info.array(buffer);
    },
    giveBack(buffers) {
      free = [...buffers, ...free].slice(0, MOST_BUFFERS * cards);
    },
  };
}
