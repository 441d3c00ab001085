import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from '@jest/globals';
import { inputFile } from '../../../cli/textFiles.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { jsonLines } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

const SAMPLES: Sample[] = jsonLines(
  readFileSync(new URL('../../../models/digits/held-out.jsonl', import.meta.url), 'utf8'),
);

describe('batchscore score', () => {
  const inFolder = useFolder();

  it('writes the result of every line in the order of the lines, whatever the size of the batches', async () => {
    const requests = SAMPLES.map(({ pixels }, index) => JSON.stringify({ id: `${index}`, instances: [pixels] }));
    writeFileSync(inFolder('in.jsonl'), `${requests.join('\n')}\n`);
    const out = inFolder('out.jsonl');
    const args = ['models/digits', inFolder('in.jsonl'), '--out', out, '--batch-size', '64', '--max-rows', '7'];
    const { code, stdout } = await batchscore(['score', ...args, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ lines: 500, scored: 500, errors: {}, rows: 500 });
    const results = jsonLines(readFileSync(out, 'utf8'));
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
    expect(jsonLines(stdout)).toEqual([
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

  it('takes CSV by the names of its columns, and writes CSV with a line for each row', async () => {
    const names = Array.from({ length: 64 }, (_, index) => `p${index}`);
    const rows = SAMPLES.slice(0, 20).map(({ pixels, label }) => [...pixels, label].join(','));
    writeFileSync(inFolder('in.csv'), `${[...names, 'label'].join(',')}\n${[...rows, 'no row'].join('\n')}\n`);
    const out = inFolder('out.csv');
    const args = ['digits', inFolder('in.csv'), '--inputs', 'image=p0..p63', '--keep', 'label', '--out', out];
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
    const [file, out] = [inFolder('in.csv'), inFolder('out.jsonl')];
    writeFileSync(file, 'p0,p1\n1,2\n');
    writeFileSync(out, 'before');
    const { code, stderr } = await batchscore(['score', 'digits', file, '--out', out]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^batchscore: input 'image': .*\n$/) });
    expect(readFileSync(out, 'utf8')).toBe('before');
  });

  it('refuses to write over its own requests, and over its model, by whatever name', async () => {
    const [file, link, model] = [inFolder('in.jsonl'), inFolder('link.jsonl'), inFolder('own.onnx')];
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
    [['/no/model', '-'], 1, /\/no\/model: expected an ONNX model, got no file/],
    [
      ['models/digits', '/no/file'],
      1,
      /\/no\/file: expected a file of requests, got: no such file or directory; check the path/,
    ],
    [['models/digits'], 2, /expected MODEL FILE/],
    [['models/digits', '-', '--keep', 'id', '--format', 'requests'], 2, /--keep: expected a file with columns/],
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

describe('what is scored or submitted', () => {
  const inFolder = useFolder();

  it('may be a pipe, as of <(gunzip -c file.gz) in a shell', async () => {
    const pipe = inFolder('pipe');
    execFileSync('mkfifo', [pipe]);
    const { stream, bytes } = await inputFile(pipe, process);
    await Promise.all([writeFile(pipe, 'a\nb\n'), expect(text(stream)).resolves.toBe('a\nb\n')]);
    expect(bytes).toBeUndefined();
  });
});
