import { POINTER_ATTRIBUTES } from '../contract/pointer.ts';
import { type MessageRecord, orderingGroup } from '../contract/record.ts';

/** Characters of bodies, payloads included, that are decoded and planned together. */
const CHUNK_CHARACTERS = 16 * 1024 * 1024;

/**
 * Cuts the records of an invocation, in order, where together they would be too large to decode at once: what bounds memory
 * when bodies lie in the payload bucket. A FIFO batch, at most ten records, stays whole, as its groups keep their order.
 */
export function splitByPayloadSize(records: readonly MessageRecord[], most = CHUNK_CHARACTERS): MessageRecord[][] {
  const chunks: MessageRecord[][] = [];
  let size = 0;
  for (const record of records) {
    const added = sizeOf(record);
    const last = chunks.at(-1);
    if (last !== undefined && (size + added <= most || orderingGroup(record) !== undefined)) {
      last.push(record);
      size += added;
    } else {
      chunks.push([record]);
      size = added;
    }
  }
  return chunks;
}

/** The size of the body, or of the payload that it points to, as the pointer's attribute says. */
function sizeOf({ body, messageAttributes }: MessageRecord): number {
  for (const name of POINTER_ATTRIBUTES) {
    const attribute = messageAttributes[name];
    if (attribute === undefined) continue;
    const announced = Number(attribute.stringValue);
    if (announced > 0) return announced;
  }
  return body.length;
}
