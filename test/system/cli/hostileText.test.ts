import { writeFileSync } from 'node:fs';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { localBucketClient } from '../../../cli/local/localServices.ts';
import { putModel } from '../../contract/cli/models.ts';
import { type Finished, type RunningDev, runScript, startDev, startInTerminal } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { identityModel } from '../../helpers/onnxModels.ts';

/** A window title, CSI as one character, DEL, a text written backwards, and three ends of a line. */
const COMMANDS = '\u001b]0;owned\u0007\u009b2J\u007f\u202ekcab\u2066\u2028';
const HOSTILE = `${COMMANDS}\nforged: all is well`;
/** What a terminal takes for a command; the line feeds that end lines are not among it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
const COMMAND = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

function expectHarmless(text: string): void {
  expect(text).not.toMatch(COMMAND);
  expect(text.split('\n').filter((line) => line.startsWith('forged'))).toEqual([]);
  expect(text).toMatch(/\\u001b\]0;owned\\u0007\\u009b2J\\u007f\\u202ekcab\\u2066\\u2028/);
}

describe('what others wrote reaches the terminal as text', () => {
  const inFolder = useFolder();
  let dev: RunningDev;
  beforeAll(async () => {
    dev = await startDev(['--results', 'table']);
  });
  afterAll(() => dev.interrupt());

  const run = (...args: readonly string[]): Promise<Finished> => {
    writeFileSync(inFolder('stack.json'), dev.firstLine);
    return runScript('cli/batchscore.ts', [...args, '--stack', inFolder('stack.json')]);
  };

  it('keys, job files and contents of files that dev tells of', async () => {
    const { stack } = dev;
    const s3 = localBucketClient(stack.s3Endpoint, stack.region);
    const put = (Key: string, Body: string) =>
      s3.send(new PutObjectCommand({ Bucket: stack.jobBucket ?? '', Key: `jobs/in/${Key}`, Body }));
    await put(`${HOSTILE}.jsonl`, 'no row\n');
    await put('named/_job.json', JSON.stringify({ model: HOSTILE, [HOSTILE]: 1 }));
    await put('named/rows.jsonl', 'no row\n');
    await put('header/rows.csv', `"${HOSTILE}",b\n1,2\n`);
    await dev.says(/job \w+: jobs\/in\/.*kcab/);
    await dev.says(/job \w+: jobs\/in\/named|jobs\/in\/named.*: no job/);
    await dev.says(/header/);
    await put('last/rows.jsonl', 'no row\n');
    await dev.says(/job \w+: done, .*/);
    s3.destroy();
    expectHarmless(dev.said().join('\n'));
  });

  it.each([[[]], [['--json']]])('the argument of status: %j', async (options) => {
    const { stdout, stderr } = await run('status', HOSTILE, ...options);
    expectHarmless(`${stdout}${stderr}`);
  });

  it('names of files, in what submit and collect print', async () => {
    const [file, out] = [inFolder(`${HOSTILE}.jsonl`), inFolder(`${HOSTILE}.out`)];
    writeFileSync(file, '{"instances":[[1]]}\n');
    for (const args of [
      ['submit', file],
      ['collect', `${file}.ids`, '--out', out],
      ['submit', file, '--json'],
    ]) {
      const { stdout, stderr } = await run(...args);
      expectHarmless(`${stdout}${stderr}`);
    }
  });

  it('the job that is asked for', async () => {
    const { stdout, stderr } = await run('job', 'status', HOSTILE);
    expectHarmless(`${stdout}${stderr}`);
  });

  it('the results of score in a terminal, and its summary', async () => {
    const model = await putModel(inFolder(), 'identity', identityModel('FP32', ['batch', 1]));
    writeFileSync(inFolder('in.csv'), `x,name\n1,"${COMMANDS}"\n"${COMMANDS}",b\n`);
    for (const format of ['csv', 'jsonl']) {
      const args = ['score', model, inFolder('in.csv'), '--keep', 'name', '--out-format', format, '--format', 'csv'];
      const { output, ended } = startInTerminal('cli/batchscore.ts', args, { term: 'dumb' });
      expect(await ended()).toBe(3);
      expectHarmless(output().replaceAll('\r\n', '\n'));
    }
  });
});
