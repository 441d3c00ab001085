import { describe, expect, it } from '@jest/globals';
import type { ErrorCode } from '../../../lambda/core/failure.ts';
import { jobOf, manifestIn, runJob } from '../../helpers/jobs.ts';
import { lineModel, repositoryOf } from '../../helpers/scoring.ts';

/** Rows of -1 make the run fail that they are in. */
const MODELS = repositoryOf(
  lineModel({
    before: ([input]) => {
      if (input !== undefined && Array.from(input.data, Number).includes(-1)) throw new Error('the run failed');
    },
  }),
);

const input = (x: number, other: object = {}) => ({ name: 'x', datatype: 'FP32', shape: [1, 1], data: [x], ...other });
const request = (x: number, other: object = {}) => JSON.stringify({ inputs: [input(x)], ...other });
const manyRows = JSON.stringify({ inputs: [{ ...input(1), shape: [101, 1], data: Array(101).fill(1) }] });

/** A broken line for each stage that refuses one. */
const BROKEN: readonly (readonly [code: ErrorCode, line: string | Buffer])[] = [
  ['INVALID_JSON', '{"inputs":'],
  ['INVALID_JSON', Buffer.from([0x22, 0xff, 0xfe, 0x22])],
  ['INVALID_REQUEST', '{"input":[]}'],
  ['UNKNOWN_MODEL', request(1, { model_name: 'other' })],
  ['UNKNOWN_VERSION', request(1, { model_version: '9' })],
  ['MISSING_INPUT', '{"inputs":[]}'],
  ['INVALID_SHAPE', JSON.stringify({ inputs: [input(1, { shape: [1, 2] })] })],
  ['INVALID_DATA', JSON.stringify({ inputs: [input(1, { data: ['one'] })] })],
  ['TOO_MANY_ROWS', manyRows],
  ['TOO_MANY_REQUESTS', `[${Array(101).fill(request(1)).join(',')}]`],
  ['INVALID_POINTER', '["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"b","s3Key":"k"}]'],
  ['PAYLOAD_TOO_LARGE', request(1, { id: 'x'.repeat(20_000) })],
  ['RUN_FAILED', request(-1)],
];

describe('a job with broken rows', () => {
  it('answers exactly those with errors, each with the code it would have on the queue', async () => {
    const rows = 100 * BROKEN.length;
    const brokenAt = (row: number) => (row % 100 === 42 ? BROKEN[Math.floor(row / 100)] : undefined);
    const lines = Array.from({ length: rows }, (_, row) =>
      Buffer.from(brokenAt(row)?.[1] ?? request(row, { id: `${row}` })),
    );
    const content = Buffer.concat(lines.flatMap((line) => [line, Buffer.from('\n')]));
    const sizes = { partBytes: 40_000, pieceBytes: 10_000, maxLineBytes: 15_000 };
    const job = jobOf('in/a.jsonl', content, { models: MODELS, ...sizes });
    const scored = await runJob(job);
    expect(scored.map(({ code }) => code)).toEqual(lines.map((_, row) => brokenAt(row)?.[0]));
    for (const [row, { id, code, outputs }] of scored.entries()) {
      if (code === undefined)
        expect([id, outputs]).toEqual([`${row}`, [expect.objectContaining({ data: [2 * row + 1] })]]);
    }
    const { errors, failedParts } = manifestIn(job.storage);
    const expected: Record<string, number> = {};
    for (const [code] of BROKEN) expected[code] = (expected[code] ?? 0) + 1;
    expect(errors).toEqual(expected);
    expect(failedParts).toEqual([]);
  });
});
