import { readFileSync } from 'node:fs';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { parquetWriteBuffer } from 'hyparquet-writer';
import type { Body } from '../../../lambda/core/microBatch.ts';
import type { ByteRange } from '../../../lambda/jobs/jobFiles.ts';
import { readHead, readParts } from '../../../lambda/jobs/jobObjects.ts';
import type { Span, Spec } from '../../../lambda/jobs/jobTypes.ts';
import { openParquet } from '../../../lambda/jobs/parquetRows.ts';
import { layOutParquet } from '../../../lambda/jobs/planJob.ts';
import type { Rows } from '../../../lambda/jobs/rows.ts';
import { openReader } from '../../../lambda/jobs/scorePart.ts';
import { FOLDER, memoryStorage, planOf } from '../../helpers/jobs.ts';
import { lineModel, repositoryOf } from '../../helpers/scoring.ts';

/** How a file is cut, and in what bites its bytes and rows are handed over. */
interface Cut {
  readonly partBytes: number;
  readonly pieceBytes: number;
  readonly chunkBytes: number;
  readonly rowsATake: number;
  /** Whether each piece is read by another call. */
  readonly reopens: boolean;
}

/** From one to more than any of the files has. */
const size = fc.integer({ min: 0, max: 16 }).chain((power) => fc.integer({ min: 1, max: 2 ** power }));
const cuts: fc.Arbitrary<Cut> = fc.record({
  partBytes: size,
  pieceBytes: size,
  chunkBytes: size,
  rowsATake: fc.integer({ min: 1, max: 50 }),
  reopens: fc.boolean(),
});
const MODELS = repositoryOf(lineModel());
const MAX_LINE_BYTES = 2_000;

/** Every row of a file, as the pieces of its parts give them, one after the other. */
async function rowsIn(key: string, content: Buffer, cut: Cut, asked: Spec = {}) {
  const storage = memoryStorage(cut.chunkBytes);
  storage.objects.set(key, content);
  const { partBytes, pieceBytes } = cut;
  const { planKey } = await planOf({
    storage,
    models: MODELS,
    key,
    content,
    spec: asked,
    partBytes,
    pieceBytes,
  });
  const head = await readHead(storage, FOLDER);
  if (head === undefined) throw new Error('expected a plan');
  const rows: ReturnType<typeof rowIn>[] = [];
  for (const part of await readParts(storage, planKey)) {
    let reader = openReader(storage, head, { part }, MAX_LINE_BYTES);
    for (let piece = 0; ; piece++) {
      const read = await reader.read(piece, () => true);
      if (read === undefined) break;
      for (let some = read.take(cut.rowsATake); some !== undefined; some = read.take(cut.rowsATake)) {
        expect(some.length).toBeLessThanOrEqual(cut.rowsATake);
        for (let row = 0; row < some.length; row++) rows.push(rowIn(some, row));
      }
      if (read.isLast) {
        expect(await reader.read(piece + 1, () => true)).toBeUndefined();
        break;
      }
      if (!cut.reopens) continue;
      reader.close();
      reader = openReader(storage, head, { part }, MAX_LINE_BYTES);
    }
    reader.close();
  }
  return rows;
}

function rowIn(rows: Rows, row: number) {
  return {
    id: rows.idOf(row),
    body: rows.requestOf(row),
    code: rows.failureOf(row)?.code,
    kept: rows.keptOf(row),
  };
}

interface Line {
  readonly bytes: Buffer;
  /** Of the row; undefined for a line that is none. */
  readonly row: { readonly body: Body; readonly code?: string; readonly kept?: string } | undefined;
}

const requestLine = fc
  .oneof(
    { weight: 6, arbitrary: fc.integer().map((x) => `{"instances":[[${x}]]}`) },
    { weight: 3, arbitrary: fc.string({ unit: 'grapheme', minLength: 1 }).map((id) => JSON.stringify({ id })) },
    { weight: 1, arbitrary: fc.nat(3_000).map((length) => `{"id":"${'x'.repeat(length)}"}`) },
    { weight: 1, arbitrary: fc.constantFrom('{', '[]', '"\u2028ü"') },
  )
  .map((text): Line => {
    const bytes = Buffer.from(text);
    return { bytes, row: bytes.length > MAX_LINE_BYTES ? { body: '', code: 'PAYLOAD_TOO_LARGE' } : { body: text } };
  });
const blankLine = fc.constantFrom('', ' ', '\t').map((text): Line => ({ bytes: Buffer.from(text), row: undefined }));
const brokenLine = fc.constant<Line>({
  bytes: Buffer.from([0x22, 0xff, 0x22]),
  row: { body: '', code: 'INVALID_JSON' },
});

const csvLine = fc
  .record({
    x: fc.integer(),
    id: fc.string({ unit: 'grapheme' }),
    quoted: fc.boolean(),
    fields: fc.constantFrom(2, 2, 2, 3),
  })
  .filter(({ id }) => !/[\r\n]/.test(id))
  .map(({ x, id, quoted, fields }): Line => {
    const field = quoted || /[",]/.test(id) ? `"${id.replaceAll('"', '""')}"` : id;
    const bytes = Buffer.from(`${x},${field}${fields === 3 ? ',' : ''}`);
    const input = { name: 'x', datatype: 'FP32', shape: [1, 1], data: Float32Array.of(x) } as const;
    return {
      bytes,
      row:
        fields === 3
          ? { body: '', code: 'INVALID_REQUEST' }
          : { body: { inputs: [input], reply: 'json' }, kept: JSON.stringify({ id }) },
    };
  });

const textFile = (line: fc.Arbitrary<Line>, head: fc.Arbitrary<string>) =>
  fc
    .record({
      head,
      lines: fc.array(
        fc.record({
          line: fc.oneof(
            { weight: 8, arbitrary: line },
            { weight: 1, arbitrary: blankLine },
            { weight: 1, arbitrary: brokenLine },
          ),
          end: fc.constantFrom('\n', '\r\n'),
        }),
        { maxLength: 30 },
      ),
      endsInLine: fc.boolean(),
    })
    .map(({ head, lines, endsInLine }) => {
      let content = Buffer.from(head);
      const rows = lines.flatMap(({ line: { bytes, row }, end }, index) => {
        // A byte order mark is of the first line.
        const start = head.endsWith('\n') ? content.length : index === 0 ? 0 : content.length;
        content = Buffer.concat([content, bytes, Buffer.from(endsInLine && index === lines.length - 1 ? '' : end)]);
        return row === undefined ? [] : [{ id: `${start}`, body: row.body, code: row.code, kept: row.kept }];
      });
      return { content, rows };
    });

const FILES = {
  jsonl: textFile(requestLine, fc.constantFrom('', '\uFEFF')),
  csv: textFile(csvLine, fc.constantFrom('x,id\n', '\uFEFFx,"id"\r\n')),
};
const COMPRESSORS = { '': undefined, '.gz': gzipSync, '.zst': zstdCompressSync };
/** A frame of zstd that is passed over. @see https://www.rfc-editor.org/rfc/rfc8878#section-3.1.2 */
const SKIPPABLE = Buffer.from([0x5f, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 0x28, 0xb5]);

/** Compressed in one piece or in several, one behind the other. */
function compressed(content: Buffer, places: readonly number[], ending: keyof typeof COMPRESSORS): Buffer {
  const compress = COMPRESSORS[ending];
  if (compress === undefined) return content;
  const bounds = [0, ...places.map((place) => place % (content.length + 1)), content.length].toSorted((a, b) => a - b);
  const members = bounds.slice(1).map((end, index) => compress(content.subarray(bounds[index], end)));
  return Buffer.concat(ending === '.zst' && places.length > 0 ? [SKIPPABLE, ...members] : members);
}

const parquetOf = (name: string): Buffer => readFileSync(new URL(`parquet/${name}.parquet`, import.meta.url));
/** What PyArrow reads. */
const ROWS: Record<string, unknown>[] = JSON.parse(readFileSync(new URL('parquet/none.json', import.meta.url), 'utf8'));

describe('however a file is cut, each of its rows is read once, in order, under the place where it lies', () => {
  for (const format of ['jsonl', 'csv'] as const) {
    it.each(['', '.gz', '.zst'] as const)(`lines of ${format}%s`, async (ending) => {
      await fc.assert(
        fc.asyncProperty(
          FILES[format],
          cuts,
          fc.array(fc.nat(), { maxLength: 3 }),
          async ({ content, rows }, cut, places) => {
            // A piece for each byte of a long file takes time, and shows nothing more.
            const min = Math.ceil(content.length / 30);
            const larger = {
              ...cut,
              partBytes: Math.max(cut.partBytes, min),
              pieceBytes: Math.max(cut.pieceBytes, min),
            };
            const asked = format === 'csv' ? { keep: ['id'] } : {};
            expect(await rowsIn(`in/a.${format}${ending}`, compressed(content, places, ending), larger, asked)).toEqual(
              rows,
            );
          },
        ),
        { numRuns: 60 },
      );
    });
  }

  it.each(['none', 'snappy', 'gzip', 'zstd', 'brotli', 'groups'])('rows of Parquet: %s', async (name) => {
    const content = parquetOf(name);
    await fc.assert(
      fc.asyncProperty(cuts, async (cut) => {
        const rows = await rowsIn('in/a.parquet', content, cut, { inputs: { x: ['f64'] }, keep: ['id'] });
        expect(rows.map(({ id, kept }) => [id, JSON.parse(kept ?? '')])).toEqual(
          ROWS.map(({ id }, row) => [`${row}`, { id }]),
        );
        const values = rows.map(({ body }) => (typeof body === 'string' ? body : body.inputs[0]?.data[0]));
        expect(values).toEqual(ROWS.map(({ f64 }) => Math.fround(Number(f64))));
      }),
      { numRuns: 20 },
    );
  });
});

describe('a row group of many pages', () => {
  it('is read in windows, and not as a whole', async () => {
    const rows = 1_000_000;
    // No two values are alike: a dictionary would make them few bytes.
    const data = Float64Array.from({ length: rows }, (_, row) => Math.sin(row));
    const columnData = [
      { name: 'x', type: 'DOUBLE' as const, data, encoding: 'PLAIN' as const },
      { name: 'note', type: 'DOUBLE' as const, data: data.toReversed(), encoding: 'PLAIN' as const },
    ];
    const content = Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: rows, codec: 'UNCOMPRESSED' }));
    const spans: number[] = [];
    const input = { bucket: '', key: 'a.parquet', etag: '', bytes: content.length };
    const storage = {
      readRange: async (_: unknown, { start, end }: ByteRange) => {
        spans.push(end - start);
        return new Uint8Array(content.subarray(start, end));
      },
    };
    const limit = { storage, partBytes: 2 ** 40, pieceBytes: 2 ** 20 };
    const { inputs, parts } = await layOutParquet(input, {}, lineModel(), limit);
    const [part] = parts as readonly [Span];
    spans.length = 0;
    const reader = openParquet(storage, { ...input, inputs, keep: ['note'], missing: undefined }, part);
    let [number, largest] = [0, 0];
    for (let piece = 0; ; piece++) {
      const found = await reader.read(piece, () => true);
      if (found === undefined) break;
      for (let some = found.take(rows); some !== undefined; some = found.take(rows)) {
        for (let row = 0; row < some.length; row++) if (some.idOf(row) === String(number)) number += 1;
      }
      largest = Math.max(largest, ...spans);
    }
    expect(number).toBe(rows);
    expect(largest).toBeLessThan(content.length / 4);
    // A header or a page that a window ends within is read with the next one.
    expect(spans.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(2 * content.length);
  });
});
