import type { Model } from '../../../../lambda/core/model.ts';
import type { TransformReport } from '../../../../lambda/core/observer.ts';
import type { Outcome, TimeLimit } from '../../../../lambda/core/record.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import {
  enoughTime,
  type MemoryWriter,
  messageIdOf,
  repositoryOf,
  scoringDependencies,
  standardRecords,
} from '../../../helpers/scoring.ts';

/** Scores bodies with the models, and tells what their transforms' batch hooks were called for. */
export async function scoreWith(
  models: readonly Model[],
  bodies: readonly unknown[],
  {
    time = enoughTime(),
    payloads,
  }: { readonly time?: TimeLimit; readonly payloads?: ReadonlyMap<string, string> } = {},
) {
  const reader = payloads && { read: async ({ key }: { readonly key: string }) => payloads.get(key) ?? '' };
  const deps = scoringDependencies({ models: repositoryOf(...models), payloads: reader });
  const reports: TransformReport[] = [];
  const observer = { ...deps.observer, transformed: (report: TransformReport) => void reports.push(report) };
  const outcomes = await scoreRecords(standardRecords(bodies), { ...deps, observer }, time);
  const answers = bodies.flatMap((_, index) => deps.writer.documentsOf(messageIdOf(index)).flat());
  return { deps, outcomes, reports, answers: answers as Record<string, unknown>[] };
}

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
