import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { parquetReadObjects } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { putModel } from '../../contract/cli/models.ts';
import { REPOSITORY, runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { identityModel, turningModel } from '../../helpers/onnxModels.ts';
import { putFile } from '../../helpers/openModels.ts';

jest.setTimeout(60_000);

const ROWS = 60;
const TURNS = Array.from({ length: ROWS }, (_, row) => 10_000 + row);
/** A row that is an error, among the first. */
const CELLS = TURNS.map((turns, row) => (row === 3 ? 'none' : String(turns)));

const FILES: Readonly<Record<string, () => Buffer | string>> = {
  'in.csv': () => `turns,id\n${CELLS.map((cell, row) => `${cell},${row}\n`).join('')}`,
  'in.csv.gz': () => gzipSync(`turns,id\n${CELLS.map((cell, row) => `${cell},${row}\n`).join('')}`),
  'in.jsonl': () => CELLS.map((turns, id) => `${JSON.stringify({ turns, id: String(id) })}\n\n`).join(''),
  'in.parquet': () =>
    Buffer.from(
      parquetWriteBuffer({
        columnData: [
          { name: 'turns', type: 'INT64', data: TURNS.map(BigInt) },
          { name: 'id', type: 'STRING', data: TURNS.map((_, row) => `${row}\n"`) },
        ],
        rowGroupSize: 25,
      }),
    ),
};

describe('batchscore score that was stopped', () => {
  const inFolder = useFolder();
  let model = '';
  beforeEach(async () => {
    model = await putModel(inFolder(), 'turning', turningModel());
    for (const [name, content] of Object.entries(FILES)) writeFileSync(inFolder(name), content());
  });

  const score = (args: readonly string[]) => runScript('cli/batchscore.ts', ['score', ...args]);
  const argsOf = (name: string, out: string): string[] => [
    ...[model, inFolder(name), '--batch-size', '4', '--out', inFolder(out)],
    ...['--keep', 'id'],
    ...(name === 'in.csv.gz' ? ['--format', 'csv'] : []),
  ];

  /** Stops it once its results have begun to be written. */
  async function stop(args: readonly string[], out: string, signal: NodeJS.Signals = 'SIGINT', bytes = 400) {
    const child = spawn(process.execPath, ['cli/batchscore.ts', 'score', ...args], { cwd: REPOSITORY });
    const said = Promise.all([text(child.stdout), text(child.stderr)]);
    const closed = once(child, 'close');
    const hasRows = (): boolean => {
      const path = inFolder(`${out}.part`);
      return existsSync(path) && statSync(path).size >= bytes;
    };
    while (!hasRows() && child.exitCode === null) await new Promise((resolve) => setImmediate(resolve));
    child.kill(signal);
    const [code] = await closed;
    const [stdout, stderr] = await said;
    return { code, stdout, stderr };
  }

  it.each([
    ['in.csv', 'out.csv'],
    ['in.csv.gz', 'out.csv'],
    ['in.jsonl', 'out.jsonl'],
    ['in.parquet', 'out.csv'],
  ])('of %s leaves whole rows in %s.part, and goes on to what an uninterrupted run writes', async (name, out) => {
    const whole = await score(argsOf(name, `whole-${out}`));
    const expected = readFileSync(inFolder(`whole-${out}`));

    const { code, stderr } = await stop(argsOf(name, out), out);

    expect(code).toBe(130);
    const [, rows] = /stopped; the results of the first (\d+) \w+ are in .*\.part; add --resume/.exec(stderr) ?? [];
    expect(Number(rows)).toBeLessThan(ROWS);
    const part = readFileSync(inFolder(`${out}.part`));
    const lines = part.toString().split('\n').length - 1 - (out === 'out.csv' && name !== 'in.parquet' ? 1 : 0);
    if (name !== 'in.parquet') expect(lines).toBe(Number(rows));
    expect(expected.subarray(0, part.length)).toEqual(part);
    expect(existsSync(inFolder(out))).toBe(false);

    const resumed = await score([...argsOf(name, out), '--resume']);

    expect(resumed.code).toBe(whole.code);
    expect(resumed.stdout).toMatch(
      new RegExp(`^${ROWS} \\w+ \\(${rows} before\\) in .* ${whole.code === 0 ? 60 : 59} scored`),
    );
    expect(readFileSync(inFolder(out))).toEqual(expected);
    expect(existsSync(inFolder(`${out}.part`)) || existsSync(inFolder(`${out}.part.json`))).toBe(false);
  });

  it('refuses to go on with another input, model, or columns, and leaves what was scored', async () => {
    const args = argsOf('in.csv', 'out.csv');
    expect((await stop(args, 'out.csv', 'SIGTERM')).code).toBe(143);
    const part = readFileSync(inFolder('out.csv.part'));
    const other = await putModel(inFolder(), 'identity', identityModel('INT64', ['batch']));
    const refused = async (changed: readonly string[]) => (await score([...changed, '--resume'])).stderr;

    writeFileSync(inFolder('out.csv.part'), part.subarray(0, -1));
    expect(await refused(args)).toMatch(/--resume: expected .*out\.csv\.part as the run left it .*, got another file;/);
    writeFileSync(inFolder('out.csv.part'), part);
    expect(await refused(args.with(args.indexOf('id'), 'turns'))).toMatch(
      /--keep: expected "id", of which the results in .*out\.csv\.part are, got "turns"; give the same, or leave --resume/,
    );
    expect(await refused([...args, '--missing', '0'])).toMatch(/--missing: expected "an error", .* got "0"/);
    expect(await refused([...args, '--inputs', 'turns=id'])).toMatch(/--inputs: expected "{}", .* got "{\\"turns\\"/);
    expect(await refused([...args, '--separator', ';'])).toMatch(/--separator: expected ",", .* got ";"/);
    expect(await refused([...args, '--out-format', 'jsonl'])).toMatch(/--out-format: expected "csv", .* got "jsonl"/);
    expect(await refused([other, ...args.slice(1)])).toMatch(/MODEL: expected "sha256:\w+…, .* got "sha256:\w+…;/);
    await putFile(inFolder('turning/config.json'), { transform: 'transform.ts' });
    await putFile(inFolder('turning/transform.ts'), 'export const encode = () => 1;');
    expect(await refused(args)).toMatch(/config\.json and its transform: expected "sha256:\w+…, .* got "sha256:\w+…;/);
    rmSync(inFolder('turning/config.json'));
    appendFileSync(inFolder('in.csv'), '1,61\n');
    expect(await refused(args)).toMatch(/FILE: expected "\d+ bytes of .*", .* got "\d+ bytes of .*"/);
    expect(readFileSync(inFolder('out.csv.part'))).toEqual(part);
  });

  it('needs no --batch-size to stop soon, however slow the model is', async () => {
    writeFileSync(inFolder('long.csv'), `turns\n${'20000\n'.repeat(2_000)}`);
    const args = [model, inFolder('long.csv'), '--out', inFolder('long-out.csv')];
    const { code, stderr } = await stop(args, 'long-out.csv');
    expect({ code, stderr }).toEqual({
      code: 130,
      stderr: expect.stringMatching(/the first \d+ lines are in .*; add --resume/),
    });
  });

  it('refuses the results of a run that was killed', async () => {
    const args = argsOf('in.csv', 'killed.csv');
    // The note of one that was stopped before is not about them.
    await stop(args, 'killed.csv');
    rmSync(inFolder('killed.csv.part'));
    await stop(args, 'killed.csv', 'SIGKILL');
    const part = readFileSync(inFolder('killed.csv.part'));
    const { code, stderr } = await score([...args, '--resume']);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(
        /--resume: expected .*killed\.csv\.part\.json beside .*, got none, because .* killed; leave/,
      ),
    });
    expect(readFileSync(inFolder('killed.csv.part'))).toEqual(part);
  });

  it('begins with the first row without --resume, or where nothing was left', async () => {
    await stop(argsOf('in.csv', 'out.csv'), 'out.csv');
    expect((await score(argsOf('in.csv', 'out.csv'))).stdout).toMatch(/^60 lines in /);
    expect((await score([...argsOf('in.csv', 'out.csv'), '--resume'])).stdout).toMatch(/^60 lines in /);
  });

  it('leaves a table that can be read where it writes Parquet', async () => {
    const args = argsOf('in.csv', 'out.parquet');
    // Results wait for their row group: only the first bytes of the file are there before.
    const { stderr } = await stop(args, 'out.parquet', 'SIGINT', 4);
    const [, rows] = /the first (\d+) lines are in .*; add --resume/.exec(stderr) ?? [];
    const file = new Uint8Array(readFileSync(inFolder('out.parquet.part'))).buffer;
    expect((await parquetReadObjects({ file })).map(({ id }) => id)).toEqual(
      Array.from({ length: Number(rows) }, (_, row) => `${row}`),
    );
    await score([...args, '--resume']);
    await score(argsOf('in.csv', 'whole.parquet'));
    expect(readFileSync(inFolder('out.parquet'))).toEqual(readFileSync(inFolder('whole.parquet')));
  });

  it.each([
    ['stdin', '-', '--out', 'x.csv'],
    ['stdout', 'in.csv'],
  ])('refuses --resume with %s', async (_, file, ...out) => {
    const path = file === '-' ? file : inFolder(file);
    const { code, stderr } = await score([
      model,
      path,
      '--resume',
      ...out.map((one) => (one === '--out' ? one : inFolder(one))),
    ]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/--resume: expected a FILE and an --out/),
    });
  });
});

describe('batchscore score without a terminal', () => {
  const inFolder = useFolder();

  it('says every ten seconds how many rows are written', async () => {
    const model = await putModel(inFolder(), 'turning', turningModel());
    const child = spawn(
      process.execPath,
      ['cli/batchscore.ts', 'score', model, '-', '--out', inFolder('out.jsonl'), '--batch-size', '2'],
      {
        cwd: REPOSITORY,
      },
    );
    const closed = once(child, 'close');
    const said: string[] = [];
    const lines = createInterface({ input: child.stderr });
    child.stdin.write('{"instances":[1]}\n{"instances":[1]}\n{"instances":[1]}\n{}\n{"instances":[1]}\n');
    for await (const line of lines) {
      if (!line.startsWith('scoring')) continue;
      said.push(line);
      child.stdin.end();
    }
    expect(await closed).toEqual([3, null]);
    expect(said[0]).toMatch(/^scoring: 4 rows, 1 error, \d+ rows\/s$/);
  });
});
