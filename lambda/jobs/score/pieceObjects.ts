import { dataKey, partialKey, reportKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { Report } from '../../core/job/words.ts';
import { PARTIAL, parseObject } from '../schemas.ts';
import { createOutput, type Output } from './output.ts';

export interface Place {
  readonly folder: string;
  readonly part: number;
  readonly piece: number;
}

/** What calls before this one answered of a piece: partial objects that follow each other, from its first row on. */
export async function readPartials(storage: JobStorage, { folder, part, piece }: Place): Promise<Output> {
  const output = createOutput();
  for (;;) {
    const key = partialKey(folder, part, piece, output.rows);
    const text = await storage.get(key);
    if (text === undefined) return output;
    const end = text.indexOf('\n');
    const { rows, errors } = parseObject(PARTIAL, text.slice(0, end), key);
    output.addPartial({ rows, errors, lines: text.slice(end + 1) });
  }
}

/** Keeps what this call answered of a piece, for the next one. @returns how many rows that are */
export async function writePartial(
  storage: JobStorage,
  { folder, part, piece }: Place,
  output: Output,
): Promise<number> {
  const { rows, errors, lines } = output.partial();
  if (rows === 0) return 0;
  const key = partialKey(folder, part, piece, output.rows - rows);
  await storage.put(key, `${JSON.stringify({ rows, errors })}\n${lines}`);
  return rows;
}

/** The report is put last: a piece that has one has all its rows. */
export async function writePiece(
  storage: JobStorage,
  { folder, part, piece }: Place,
  output: Output,
  about: Pick<Report, 'bytesIn' | 'ms' | 'last'>,
): Promise<void> {
  const { rows, errors, bytes } = output;
  await storage.put(dataKey(folder, part, piece), output.whole());
  const report: Report = { part, piece, rows, errors, bytesOut: bytes, ...about };
  await storage.put(reportKey(folder, part, piece), JSON.stringify(report));
}
