import { copyFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { batchscore } from '../../helpers/batchscore.ts';
import { hungryModel, putModel } from './models.ts';

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

const SAMPLES: Sample[] = readFileSync(new URL('../../../models/digits/held-out.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line));

describe('batchscore score', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-score-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('writes the result of every line in the order of the lines, whatever the size of the batches', async () => {
    const requests = SAMPLES.map(({ pixels }, index) => JSON.stringify({ id: `${index}`, instances: [pixels] }));
    writeFileSync(join(folder, 'in.jsonl'), `${requests.join('\n')}\n`);
    const out = join(folder, 'out.jsonl');
    const args = [
      'score',
      'models/digits',
      join(folder, 'in.jsonl'),
      '--out',
      out,
      '--batch-size',
      '64',
      '--max-rows',
      '7',
    ];
    const { code, stdout } = await batchscore([...args, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ lines: 500, scored: 500, errors: {}, rows: 500 });
    const results = readFileSync(out, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(results.map(({ message_id: id, id: own }) => [id, own])).toEqual(
      SAMPLES.map((_, index) => [String(index + 1), String(index)]),
    );
    const right = results.filter(({ predictions }, index) => predictions[0].label === SAMPLES[index]?.label);
    expect(right.length / results.length).toBeGreaterThanOrEqual(0.95);
  });

  it('answers bad lines in place, reads stdin, writes stdout, and exits with 3', async () => {
    const stdin = `{"instances":[[1]]}\n\n{"instances":[${JSON.stringify(SAMPLES[0]?.pixels)}]}\nnope`;
    const { code, stdout } = await batchscore(['score', 'models/digits/1/model.onnx', '-'], stdin);
    expect(code).toBe(3);
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([
      expect.objectContaining({ message_id: '1', code: 'INVALID_SHAPE' }),
      expect.objectContaining({ message_id: '3', predictions: [expect.any(Object)] }),
      expect.objectContaining({ message_id: '4', code: 'INVALID_JSON' }),
    ]);
  });

  it('ends lines at \\n alone: JSON may hold U+2028, files of other systems \\r\\n and a byte order mark', async () => {
    const stdin = '\uFEFF{"text":"a\u2028b"}\r\n{"text":"c"}\r\n';
    const { code, stdout, stderr } = await batchscore(['score', 'models/tickets', '-'], stdin);
    const ids = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).message_id);
    expect({ code, ids }).toEqual({ code: 0, ids: ['1', '2'] });
    expect(stderr).toMatch(/; 1 micro-batch of 2\.0 rows/);
  });

  it('answers a line that the memory does not suffice for with its code, and goes on', async () => {
    const model = await putModel(folder, 'hungry', hungryModel());
    const line = (id: string, room: number): string => `{"id":"${id}","instances":[{"x":[7],"room":[${room}]}]}`;
    const stdin = [line('a', 1), line('b', 2 ** 48), line('c', 1)].join('\n');
    const { code, stdout, stderr } = await batchscore(['score', model, '-', '--json'], stdin);
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((one) => JSON.parse(one)),
    ).toEqual([
      expect.objectContaining({ message_id: '1', id: 'a', predictions: [[7]] }),
      { message_id: '2', id: 'b', code: 'OUT_OF_MEMORY', error: expect.stringContaining('more memory than there is') },
      expect.objectContaining({ message_id: '3', id: 'c', predictions: [[7]] }),
    ]);
    expect(JSON.parse(stderr)).toMatchObject({ lines: 3, scored: 2, errors: { OUT_OF_MEMORY: 1 } });
    expect(code).toBe(3);
  });

  it('takes CSV by the names of its columns, and writes CSV with a line for each row', async () => {
    const names = Array.from({ length: 64 }, (_, index) => `p${index}`);
    const rows = SAMPLES.slice(0, 20).map(({ pixels, label }) => [...pixels, label].join(','));
    writeFileSync(join(folder, 'in.csv'), `${[...names, 'label'].join(',')}\n${[...rows, 'no row'].join('\n')}\n`);
    const out = join(folder, 'out.csv');
    const args = ['digits', join(folder, 'in.csv'), '--inputs', 'image=p0..p63', '--keep', 'label', '--out', out];
    const { code, stdout } = await batchscore(['score', ...args]);
    expect({ code, stdout }).toEqual({
      code: 3,
      stdout: expect.stringMatching(/^21 lines .* 20 scored, INVALID_REQUEST 1;/),
    });
    const [header, ...lines] = readFileSync(out, 'utf8').trimEnd().split('\n');
    expect(header).toBe(
      `message_id,label,output.label,${names.slice(0, 10).map((_, index) => `probabilities.${index}`)},code,error`,
    );
    const scored = lines.map((line) => line.split(','));
    expect(scored.map(([number, label]) => [number, label])).toEqual([
      ...SAMPLES.slice(0, 20).map(({ label }, index) => [`${index + 2}`, `${label}`]),
      ['22', ''],
    ]);
    expect(scored.filter(([, label, found]) => label === found).length).toBeGreaterThanOrEqual(19);
  });

  it('leaves what lies at --out as it is where the file cannot be read', async () => {
    const [file, out] = [join(folder, 'in.csv'), join(folder, 'out.jsonl')];
    writeFileSync(file, 'p0,p1\n1,2\n');
    writeFileSync(out, 'before');
    const { code, stderr } = await batchscore(['score', 'digits', file, '--out', out]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^batchscore: input 'image': .*\n$/) });
    expect(readFileSync(out, 'utf8')).toBe('before');
  });

  it('refuses to write over its own requests, and over its model, by whatever name', async () => {
    const [file, link, model] = [join(folder, 'in.jsonl'), join(folder, 'link.jsonl'), join(folder, 'own.onnx')];
    writeFileSync(file, '{"instances":[[1]]}\n');
    symlinkSync(file, link);
    copyFileSync('models/digits/1/model.onnx', model);
    const before = readFileSync(model);
    for (const out of [link, model]) {
      const { code, stderr } = await batchscore(['score', model, file, '--out', out]);
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: expect.stringMatching(/: --out: expected another file than those/),
      });
    }
    expect(readFileSync(file, 'utf8')).toBe('{"instances":[[1]]}\n');
    expect(readFileSync(model)).toEqual(before);
  });

  it.each([
    [['/no/model', '-'], 1, /\/no\/model: expected a model folder, .*, got none of these/],
    [
      ['models/digits', '/no/file'],
      1,
      /\/no\/file: expected a file of requests, got: no such file or directory; check the path/,
    ],
    [['models/digits'], 2, /expected MODEL FILE/],
    [
      ['models/digits', '-', '--format', 'parquet'],
      2,
      /--format: expected one of requests, ndjson, csv, npy, got 'parquet'/,
    ],
    [['models/digits', '-', '--keep', 'id', '--format', 'requests'], 2, /--keep: expected a file with columns/],
    [['models/digits', '-', '--batch-size', 'many'], 2, /--batch-size: expected a whole number/],
    [
      ['models/digits', '-', '--out', '/no/folder/out'],
      1,
      /^batchscore: \/no\/folder\/out: expected a folder for it, got none at \/no\/folder; make that folder\n$/,
    ],
  ])('refuses %j with exit code %i', async (args, code, message) => {
    const finished = await batchscore(['score', ...args], '{}');
    expect(finished).toMatchObject({ code, stderr: expect.stringMatching(message) });
  });
});
