import { readFileSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { jsonLines, runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { model, node } from '../../helpers/graph.ts';

jest.setTimeout(30_000);

interface Row {
  readonly tokens: readonly (number | string | null)[] | null;
  readonly embedding: readonly number[] | null;
  readonly image: readonly (readonly number[])[];
  readonly flat: readonly number[];
  readonly words: readonly (string | null)[];
  readonly flags: readonly boolean[];
}

const TABLES = new URL('tables/', import.meta.url);
/** What the writers of `tables/*-lists.parquet` were given. */
const ROWS: readonly Row[] = JSON.parse(readFileSync(new URL('lists.json', TABLES), 'utf8'));
const INPUTS = {
  tokens: 'INT64[batch,length]',
  embedding: 'FP32[batch,4]',
  image: 'FP64[batch,2,3]',
  flat: 'FP32[batch,3,2]',
  words: 'BYTES[batch,2]',
  flags: 'BOOL[batch,2]',
};
/** By row: what is wrong with it. */
const ERRORS: Readonly<Record<number, readonly [code: string, error: RegExp]>> = {
  3: ['INVALID_DATA', /column 'tokens': expected a value of INT64, got (?:an empty cell|nothing)/],
  5: ['INVALID_DATA', /column 'tokens': expected values of INT64, got null at element 1; fix that row/],
  7: ['INVALID_DATA', /column 'embedding': expected a value of FP32, got (?:an empty cell|nothing)/],
  9: ['INVALID_SHAPE', /column 'image': expected lists of one length within each other/],
  11: ['INVALID_SHAPE', /input 'flat': expected a row of the shape \[3, 2\], got \[5\]/],
  13: ['INVALID_DATA', /column 'words': expected values of BYTES, got null at element 1/],
};

function listsModel(): Uint8Array {
  const all = (prefix: string) => Object.entries(INPUTS).map(([name, type]) => `${prefix}${name} ${type}`);
  const nodes = Object.keys(INPUTS).map((name) => node('Identity', name, `of_${name}`));
  return model(all('').join('; '), all('of_').join('; '), nodes);
}

/** A cell as pandas writes a list: JSON in quotes. Whole numbers are digits. */
function cellOf(value: unknown): string {
  if (value === null) return '';
  return `"${JSON.stringify(value)
    .replaceAll(/"(\d{16,})"/g, '$1')
    .replaceAll('"', '""')}"`;
}

function csvOf(rows: readonly Row[]): string {
  const lines = rows.map((row) => Object.keys(INPUTS).map((name) => cellOf(row[name as keyof Row])));
  return [Object.keys(INPUTS), ...lines].map((cells) => `${cells.join(',')}\n`).join('');
}

describe('columns of lists', () => {
  const inFolder = useFolder();
  beforeEach(() => writeFileSync(inFolder('lists.onnx'), listsModel()));
  const score = (path: string, ...args: readonly string[]) =>
    runScript('cli/batchscore.ts', ['score', inFolder('lists.onnx'), path, ...args]);

  it.each(['pyarrow-lists.parquet', 'duckdb-lists.parquet', 'polars-lists.parquet', 'lists.csv'])(
    'fill vectors, images and ragged axes from %s, and what is no input is an error of its row',
    async (name) => {
      writeFileSync(inFolder('lists.csv'), csvOf(ROWS));
      const path = name === 'lists.csv' ? inFolder(name) : new URL(name, TABLES).pathname;

      const { code, stdout, stderr } = await score(path);

      expect({ code, stderr }).toEqual({ code: 3, stderr: expect.stringContaining('34 scored') });
      for (const [row, result] of jsonLines(stdout).entries()) {
        const wrong = ERRORS[row];
        if (wrong !== undefined) {
          const [expected, error] = wrong;
          expect(result).toEqual({
            message_id: result.message_id,
            code: expected,
            error: expect.stringMatching(name === 'lists.csv' && row === 3 ? /tokens/ : error),
          });
          continue;
        }
        expect(result.outputs.map(({ data }: { data: unknown }) => data)).toEqual(
          Object.keys(INPUTS).map((input) => [ROWS[row]?.[input as keyof Row]].flat(Number.POSITIVE_INFINITY)),
        );
        expect(result.outputs[0].shape).toEqual([1, ROWS[row]?.tokens?.length]);
      }
    },
  );

  it('in CSV are an error of their row where they are no JSON', async () => {
    const line = (tokens: string) =>
      csvOf([{ ...(ROWS[0] as Row), tokens: [] }])
        .split('\n')[1]
        ?.replace('"[]"', tokens);
    const lines = ['"[1, 2"', '"[1,""x""]"', '[]', '7', '" [1, 2]"'].map(line);
    writeFileSync(inFolder('in.csv'), `${Object.keys(INPUTS)}\n${lines.join('\n')}\n`);
    const results = jsonLines((await score(inFolder('in.csv'))).stdout);
    expect(results.map(({ code, outputs }) => code ?? outputs[0].data)).toEqual([
      ...['INVALID_DATA', 'INVALID_DATA', 'INVALID_SHAPE'],
      ...[[7], [1, 2]],
    ]);
  });

  it('of Parquet are refused before anything is scored where they are none of what the input takes', async () => {
    const path = new URL('pyarrow-lists.parquet', TABLES).pathname;
    const { code, stderr } = await score(path, '--inputs', 'words=flat');
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/column 'flat': expected lists of texts/),
    });
    const numbers = new URL('pyarrow.parquet', TABLES).pathname;
    const inputs = Object.keys(INPUTS).flatMap((name) => ['--inputs', `${name}=${name === 'words' ? 'text' : 'f32'}`]);
    expect((await score(numbers, ...inputs)).stderr).toMatch(
      /column 'f32': expected lists of booleans, integers or floats, not dates or decimals, for the input 'embedding'/,
    );
  });
});
