import type { Outcome } from '../../../../lambda/core/record.ts';
import { type MemoryWriter, messageIdOf } from '../../../helpers/scoring.ts';

/** What is written under the ID of the record at `index`, in short: `y` of the line model, or the error code. */
export function answerTo(writer: MemoryWriter, index: number): unknown {
  const documents = writer.documentsOf(messageIdOf(index));
  if (documents.length !== 1) throw new Error(`expected one result for record ${index}, got ${documents.length}`);
  return inShort(documents[0]);
}

/** `answerTo` of one document; of each in the array that answers a packed message. */
export function inShort(document: unknown): unknown {
  if (Array.isArray(document)) return document.map(inShort);
  const { code, outputs } = document as { code?: string; outputs?: { data: unknown }[] };
  return code ?? outputs?.[0]?.data;
}

/** The message IDs written, as indexes of records, in the order in which they were taken. */
export function writtenRecords(writer: MemoryWriter): number[] {
  return writer.written.map(({ messageId }) => Number.parseInt(messageId.slice(-12), 16));
}

/** Each outcome in short: `answered`, or the code of the failure for which a record goes back. */
export function statuses(outcomes: readonly Outcome[]): string[] {
  return outcomes.map((outcome) => (outcome.status === 'answered' ? 'answered' : outcome.failure.code));
}
