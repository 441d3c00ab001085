const FRAME_MAGIC = 0xfd2fb528;
/** Sixteen magic numbers, 0x184D2A50 to 0x184D2A5F, begin frames that are passed over. */
const SKIPPABLE_MAGIC = 0x184d2a50;
const WORD_BYTES = 4;
const BLOCK_HEADER_BYTES = 3;
const CHECKSUM_BYTES = 4;
const RLE_BLOCK = 1;

/** What a run of bytes is, and so what comes after it. */
type Field = 'magic' | 'descriptor' | 'skippable' | 'header' | 'block' | 'content' | 'last' | 'end';

/**
 * The bytes of zstd, cut where a frame ends. A file may be several frames, as parallel compressors and `cat` make them,
 * and Node's decompressor passes over what comes after a frame in the chunk that it ends in, without a word.
 *
 * Bytes that begin no frame are passed on as they are: the decompressor refuses them.
 *
 * @see https://www.rfc-editor.org/rfc/rfc8878#section-3.1
 */
export async function* cutAtFrames(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const frames = trackFrames();
  for await (const chunk of bytes) {
    for (let at = 0; at < chunk.length; ) {
      const end = frames.next(chunk, at);
      yield chunk.subarray(at, end);
      at = end;
    }
  }
}

/** Follows frames from chunk to chunk by the few fields that say how long they are. */
function trackFrames() {
  let field: Field = 'magic';
  let left = WORD_BYTES;
  let value = 0;
  let place = 0;
  let hasChecksum = false;
  const expect = (next: Field, length: number): void => {
    field = next;
    left = length;
    value = 0;
    place = 0;
  };
  const blockOrEnd = (isLast: boolean): void => {
    if (!isLast) expect('block', BLOCK_HEADER_BYTES);
    else if (hasChecksum) expect('end', CHECKSUM_BYTES);
    else expect('end', 0);
  };
  const block = (): void => {
    const size = (value >>> 1) % WORD_BYTES === RLE_BLOCK ? 1 : value >>> BLOCK_HEADER_BYTES;
    const isLast = value % 2 === 1;
    if (size === 0) blockOrEnd(isLast);
    else expect(isLast ? 'last' : 'content', size);
  };
  const settle: Record<Field, () => void> = {
    magic: () => {
      if (value === FRAME_MAGIC) expect('descriptor', 1);
      else if (value - (value % 16) === SKIPPABLE_MAGIC) expect('skippable', WORD_BYTES);
      else expect('end', Number.POSITIVE_INFINITY);
    },
    descriptor: () => {
      hasChecksum = (value & 4) !== 0;
      expect('header', headerBytes(value));
    },
    skippable: () => expect('end', value),
    header: () => expect('block', BLOCK_HEADER_BYTES),
    block,
    content: () => blockOrEnd(false),
    last: () => blockOrEnd(true),
    end: () => expect('magic', WORD_BYTES),
  };
  return {
    /** Where the frame ends that `chunk` is in the middle of at `from`, or the chunk. */
    next(chunk: Uint8Array, from: number): number {
      let at = from;
      while (at < chunk.length) {
        const taken = Math.min(left, chunk.length - at);
        for (let index = 0; index < taken && place < WORD_BYTES; index++, place++) {
          value += (chunk[at + index] ?? 0) * 256 ** place;
        }
        at += taken;
        left -= taken;
        const hadEnded = settleAll();
        if (hadEnded) return at;
      }
      return at;
    },
  };

  function settleAll(): boolean {
    while (left === 0) {
      const was = field;
      settle[was]();
      if (was === 'end') return true;
    }
    return false;
  }
}

/** Of a frame's header after its descriptor. @see https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1.1 */
function headerBytes(descriptor: number): number {
  const isSingleSegment = (descriptor & 32) !== 0;
  const contentSize = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >>> 6] ?? 0;
  const dictionary = [0, 1, 2, 4][descriptor & 3] ?? 0;
  return (isSingleSegment ? 0 : 1) + dictionary + contentSize;
}
