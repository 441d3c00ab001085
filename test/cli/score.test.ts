import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { runScript } from '../helpers/command.ts';
import { hungryModel, putModel } from './models.ts';

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

const SAMPLES: Sample[] = readFileSync(new URL('../../models/digits/held-out.jsonl', import.meta.url), 'utf8')
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
    const { code, stdout } = await runScript('cli/batchscore.ts', [...args, '--json']);
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
    const { code, stdout } = await runScript('cli/batchscore.ts', ['score', 'models/digits/1/model.onnx', '-'], {
      stdin,
    });
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
    const { code, stdout, stderr } = await runScript('cli/batchscore.ts', ['score', 'models/tickets', '-'], { stdin });
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
    const { code, stdout, stderr } = await runScript('cli/batchscore.ts', ['score', model, '-', '--json'], { stdin });
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

  it('says in one sentence why its results cannot be written', async () => {
    const request = JSON.stringify({ instances: [SAMPLES[0]?.pixels] });
    writeFileSync(join(folder, 'in.jsonl'), `${request}\n`.repeat(10));
    const args = ['score', 'models/digits', join(folder, 'in.jsonl')];
    const { code, stderr } = await runScript('cli/batchscore.ts', args, { stdoutFile: '/dev/full' });
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'batchscore: ENOSPC: no space left on device, write\n' });
  });

  it('refuses to write over its own requests', async () => {
    const file = join(folder, 'in.jsonl');
    writeFileSync(file, '{"instances":[[1]]}\n');
    const { code } = await runScript('cli/batchscore.ts', ['score', 'models/digits', file, '--out', file]);
    expect({ code, content: readFileSync(file, 'utf8') }).toEqual({ code: 2, content: '{"instances":[[1]]}\n' });
  });

  it.each([
    [['/no/model', '-'], 1, /\/no\/model: expected an ONNX model, got no file/],
    [
      ['models/digits', '/no/file'],
      1,
      /\/no\/file: expected a file of requests, got: no such file or directory; check the path/,
    ],
    [['models/digits'], 2, /expected MODEL FILE/],
    [['models/digits', '-', '--batch-size', 'many'], 2, /--batch-size: expected a whole number/],
    [
      ['models/digits', '-', '--out', '/no/folder/out'],
      1,
      /^batchscore: \/no\/folder\/out: expected a folder for it, got none at \/no\/folder; make that folder\n$/,
    ],
  ])('refuses %j with exit code %i', async (args, code, message) => {
    const finished = await runScript('cli/batchscore.ts', ['score', ...args], { stdin: '{}' });
    expect(finished).toMatchObject({ code, stderr: expect.stringMatching(message) });
  });
});
