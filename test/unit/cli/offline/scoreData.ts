import { Readable } from 'node:stream';
import { type RowOptions, rowBatches } from '../../../../cli/offline/rowBatches.ts';
import { createOfflineScoring, OFFLINE_LIMITS } from '../../../../cli/offline/scoreCommand.ts';
import type { Model } from '../../../../lambda/core/model.ts';
import { lineLimit } from '../../../../lambda/jobs/lineRows.ts';
import { createResultFile, outputsOf } from '../../../../lambda/jobs/resultFiles.ts';
import { documentVisitor, visitResults } from '../../../../lambda/jobs/results.ts';
import { repositoryOf, scoreModels } from '../../../helpers/scoring.ts';

export interface DataOptions extends Partial<Pick<RowOptions, 'format' | 'spec' | 'takesRequests'>> {
  /** Of the file, where it is known. */
  readonly bytes?: number;
  /** Bytes that the file comes in at a time. @default 7 */
  readonly chunk?: number;
  /** Rows that are scored together. @default 2 */
  readonly rows?: number;
}

/** What `batchscore score` writes of a file, in both forms. */
export async function scoreData(model: Model, file: Buffer | string, options: DataOptions = {}) {
  const { chunk = 7, rows: size = 2, spec = {}, format, takesRequests = true, bytes } = options;
  const scoring = createOfflineScoring(scoreModels(repositoryOf(model), OFFLINE_LIMITS), () => {}, model);
  const csv = await createResultFile('csv', outputsOf(model), spec.keep ?? []);
  const limits = { lines: size, characters: 1_000_000, record() {} };
  const documents: string[] = [];
  const lines: string[] = [csv.head.slice(0, -1)];
  const source = { model, name: 'file', format, spec, takesRequests, limits };
  const input = {
    stream: inChunks(Buffer.from(file), chunk),
    bytes,
    modifiedMs: undefined,
    change: async () => undefined,
    shareOf: () => undefined,
    lineLimit: lineLimit(Number.POSITIVE_INFINITY),
    readRange: async (start: number, end: number) => new Uint8Array(Buffer.from(file).subarray(start, end)),
  };
  for await (const { rows } of rowBatches(input, source, new AbortController().signal)) {
    const results = await scoring.score(rows);
    visitResults(
      results,
      documentVisitor(results, (text) => void documents.push(text)),
    );
    csv.add(results);
    // A cell may have a line break. A row begins with its number.
    for (const text of csv.take())
      lines.push(
        ...String(text)
          .slice(0, -1)
          .split(/\n(?=\d+,)/),
      );
  }
  return { results: documents.map((text) => JSON.parse(text)), csv: lines };
}

function inChunks(bytes: Buffer, size: number): Readable {
  const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size),
  );
  return Readable.from(chunks, { objectMode: false });
}
