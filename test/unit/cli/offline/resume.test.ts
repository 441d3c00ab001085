import { writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { TensorSpec } from '../../../../lambda/core/model.ts';
import { createResultFile, type ResultFile } from '../../../../lambda/jobs/resultFiles.ts';
import type { Results } from '../../../../lambda/jobs/results.ts';
import { requestRows } from '../../../../lambda/jobs/rows.ts';
import { useFolder } from '../../../helpers/folders.ts';

const OUTPUTS: readonly TensorSpec[] = [
  ...(['BOOL', 'UINT8', 'INT32', 'INT64', 'FP32', 'FP64'] as const).map(
    (datatype): TensorSpec => ({ name: datatype, datatype, shape: ['batch'] }),
  ),
  { name: 'text', datatype: 'BYTES', shape: ['batch'] },
  { name: 'wide', datatype: 'FP32', shape: ['batch', 200] },
];
/** Rows of a row group of the table. */
const GROUP = 1905;
const ROWS = Math.floor(2.3 * GROUP);

function rowOf(row: number): string {
  const nothing = row % 11 === 5;
  const values: Readonly<Record<string, unknown>> = {
    BOOL: row % 2 === 0,
    UINT8: row % 256,
    INT32: -row,
    INT64: `${2n ** 60n + BigInt(row)}`,
    FP32: row === 7 ? 'NaN' : Math.fround(row / 7),
    FP64: row === 9 ? '-Infinity' : row / 7,
    text: `tëxt ${row % 5}\n"`,
  };
  const outputs = Object.entries(values).map(([name, value]) => ({ name, data: [value] }));
  const wide = { name: 'wide', data: Array.from({ length: 200 }, (_, at) => at + row) };
  const error = { message_id: `${row}`, code: 'INVALID_DATA', error: 'no' };
  return JSON.stringify(nothing ? error : { message_id: `${row}`, outputs: [...outputs, wide] });
}

function taken(file: ResultFile, results: Results): readonly (string | Uint8Array)[] {
  file.add(results);
  return file.take();
}

function rows(from: number, to: number): Results {
  const single = Array.from({ length: to - from }, (_, at) => ({ text: rowOf(from + at), failures: [] }));
  const requests = requestRows([...single.keys()], []);
  return { rows: requests, count: single.length, single, shared: [], isTooMuch: false };
}

describe('a table of results that is gone on with', () => {
  const inFolder = useFolder();

  it.each([0, 1, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP, ROWS])(
    'after %i rows has the bytes of one written at once',
    async (rowsBefore) => {
      const whole = await createResultFile('parquet', OUTPUTS, []);
      const expected = Buffer.concat([...taken(whole, rows(0, ROWS)), whole.end()].map((chunk) => Buffer.from(chunk)));
      const stopped = await createResultFile('parquet', OUTPUTS, []);
      const before = [...taken(stopped, rows(0, rowsBefore)), stopped.end()].map((chunk) => Buffer.from(chunk));
      const part = Buffer.concat(before);
      writeFileSync(inFolder('part'), Buffer.concat([part, Buffer.from('later')]));

      const resumed = await createResultFile('parquet', OUTPUTS, []);
      const bytes = await resumed.resume(inFolder('part'), part.length);
      const rest = [...taken(resumed, rows(rowsBefore, ROWS)), resumed.end()].map((chunk) => Buffer.from(chunk));

      expect(Buffer.concat([part.subarray(0, bytes), ...rest]).equals(expected)).toBe(true);
    },
  );
});
