import { Readable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createOfflineScoring } from '../../../cli/offline/scoreCommand.ts';
import { batchesOfLines } from '../../../cli/textFiles.ts';
import { LIMITS, memoryStorage, runJob } from '../../helpers/jobs.ts';
import { lineModel, repositoryOf } from '../../helpers/models.ts';

const MODELS = repositoryOf(lineModel());

/** What `batchscore score` writes for the whole file. */
async function scoredWhole(content: Uint8Array): Promise<Record<string, unknown>[]> {
  const scoring = createOfflineScoring(MODELS, LIMITS, () => {});
  const results: Record<string, unknown>[] = [];
  const limits = { lines: 1000, characters: 1_000_000 };
  const input = Readable.from([Buffer.from(content)], { objectMode: false });
  for await (const batch of batchesOfLines(input, limits, new AbortController().signal)) {
    results.push(
      ...(await scoring.score(batch.map(({ number, text: line }) => ({ id: String(number), text: line })))).map(
        (text) => JSON.parse(text),
      ),
    );
  }
  return results;
}

/** Of each line that is not blank: its number, and where it begins. */
function placesIn(content: Buffer): { number: string; start: string }[] {
  const places: { number: string; start: string }[] = [];
  let start = 0;
  for (const [index, line] of content.toString('latin1').split('\n').entries()) {
    const text = content.subarray(start, start + line.length).toString();
    if (text.replace(/^\uFEFF/, '').trim() !== '') places.push({ number: `${index + 1}`, start: `${start}` });
    start += line.length + 1;
  }
  return places;
}

const text = fc.string({ unit: 'grapheme', maxLength: 12 });
const line = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: -9, max: 9 }).map((x) => `{"instances":[[${x}]]}`) },
  { weight: 3, arbitrary: text.map((id) => JSON.stringify({ id, instances: [[1], [2]] })) },
  { weight: 1, arbitrary: fc.constantFrom('', ' ', '\t', '{', '[]', '{"instances":[[1,2]]}', '{"id":"a\u2028ü"}') },
  { weight: 1, arbitrary: fc.nat(3000).map((length) => `{"id":"${'x'.repeat(length)}","instances":[[7]]}`) },
);
const file = fc
  .record({
    mark: fc.constantFrom('', '', '', '\uFEFF'),
    lines: fc.array(fc.tuple(line, fc.constantFrom('\n', '\n', '\r\n')), { maxLength: 12 }),
    last: fc.option(line, { nil: '' }),
  })
  .map(({ mark, lines, last }) => Buffer.from(`${mark}${lines.map((one) => one.join('')).join('')}${last}`));
/** From a byte to more than any of the files. */
const size = fc.integer({ min: 0, max: 20 }).chain((power) => fc.integer({ min: 1, max: 2 ** power }));

describe('a job of lines', () => {
  it('writes what batchscore score writes of the whole file, in any parts and pieces', async () => {
    let cases = 0;
    await fc.assert(
      fc.asyncProperty(file, size, size, async (content, partBytes, pieceBytes) => {
        // Tiny pieces of a long file are many objects and nothing else.
        const least = Math.ceil(content.length / 100);
        const sizes = { partBytes: Math.max(partBytes, least), pieceBytes: Math.max(pieceBytes, least) };
        const storage = memoryStorage();
        storage.objects.set('in/a.jsonl', content);
        const rows = await runJob({ storage, models: MODELS, key: 'in/a.jsonl', content, ...sizes });
        const places = placesIn(content);
        const numbered = rows.map((row, index) => ({ ...row, message_id: places[index]?.number }));
        expect(rows.map((row) => row.message_id)).toEqual(places.map(({ start }) => start));
        expect(numbered).toEqual(await scoredWhole(content));
        cases += 1;
      }),
      { numRuns: 1000 },
    );
    expect(cases).toBeGreaterThanOrEqual(1000);
  });
});
