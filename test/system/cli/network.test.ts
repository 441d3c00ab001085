import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { localBucketClient } from '../../../cli/local/localServices.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { type Finished, freePort, jsonLines, type RunningDev, startDev } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { until } from '../../helpers/hosts.ts';

const PIXELS = Array.from({ length: 64 }, (_, index) => index % 17);
const LINES = [
  JSON.stringify({ id: 'a', instances: [PIXELS] }),
  '',
  'not JSON',
  JSON.stringify({ id: 'b', inputs: [{ name: 'image', datatype: 'FP32', shape: [1, 64], data: PIXELS }] }),
];

describe('batchscore submit and collect', () => {
  let dev: RunningDev;
  const inFolder = useFolder();
  let file: string;
  beforeAll(async () => {
    dev = await startDev(['--results', 'queue,table,bucket', '--batch-size', '10', '--window', '0'], {
      env: { BATCHSCORE_PAYLOAD_PREFIX: 'ignored/' },
    });
  });
  afterAll(async () => {
    await dev.interrupt();
  });
  beforeEach(() => {
    file = inFolder('requests.jsonl');
    writeFileSync(inFolder('stack.json'), `${dev.firstLine}\n`);
    writeFileSync(file, `${LINES.join('\n')}\n`);
  });

  const run = (...args: readonly string[]): Promise<Finished> =>
    batchscore([...args, '--stack', inFolder('stack.json'), '--json']);
  const linesOf = (name: string): unknown[] => jsonLines(readFileSync(inFolder(name), 'utf8'));

  it('send every line, and get every result from the table under the message ID of its line', async () => {
    const submitted = await run('submit', file);
    expect({ ...submitted, stdout: JSON.parse(submitted.stdout) }).toEqual({
      code: 0,
      stderr: '',
      stdout: { submitted: 3, before: 0, ids: `${file}.ids` },
    });
    const out = inFolder('results.jsonl');
    const collected = await run('collect', `${file}.ids`, '--out', out, '--timeout', '30');
    expect({ ...collected, stdout: JSON.parse(collected.stdout) }).toEqual({
      code: 3,
      stderr: '',
      stdout: { collected: 3, missing: 0, failed: 1, out },
    });
    const ids = linesOf('requests.jsonl.ids') as { line: number; message_id: string }[];
    const results = linesOf('results.jsonl') as { message_id: string; id?: string; code?: string }[];
    const byLine = new Map(ids.map(({ line, message_id: id }) => [line, results.find((one) => one.message_id === id)]));
    expect([...byLine.keys()].toSorted()).toEqual([1, 3, 4]);
    expect(byLine.get(1)).toMatchObject({ id: 'a', predictions: [expect.any(Object)] });
    expect(byLine.get(3)).toMatchObject({ code: 'INVALID_JSON' });
    expect(byLine.get(4)).toMatchObject({ id: 'b', outputs: [{ name: 'label' }, { name: 'probabilities' }] });
  });

  it('pack the lines into messages, and get the result of each under the ID of its line', async () => {
    const { resultTable: _, ...queueOnly } = JSON.parse(dev.firstLine);
    writeFileSync(inFolder('stack.json'), JSON.stringify(queueOnly));
    const lines = Array.from({ length: 250 }, (_, index) => JSON.stringify({ id: `r-${index}`, instances: [PIXELS] }));
    writeFileSync(file, `${[...lines, LINES[2], LINES[3]].join('\n')}\n`);
    expect(JSON.parse((await run('submit', file, '--pack', '100')).stdout)).toMatchObject({ submitted: 252 });
    const ids = linesOf('requests.jsonl.ids') as { line: number; message_id: string }[];
    expect(new Set(ids.map(({ message_id: id }) => id.split('/')[0])).size).toBe(4);

    const out = inFolder('results.jsonl');
    const collect = () => run('collect', `${file}.ids`, '--out', out, '--timeout', '30');
    expect(JSON.parse((await collect()).stdout)).toEqual({ collected: 252, missing: 0, failed: 1, out });
    const results = linesOf('results.jsonl') as { message_id: string; id?: string; code?: string }[];
    expect(results).toHaveLength(252);
    const byId = new Map(results.map((result) => [result.message_id, result]));
    const nameOf = (line: number) => (line <= 250 ? `r-${line - 1}` : line === 252 ? 'b' : undefined);
    expect(ids.map(({ message_id: id }) => byId.get(id)?.id)).toEqual(ids.map(({ line }) => nameOf(line)));
  });

  it('put a line too large for a message under the prefix of the stack file, or --payload-prefix before it', async () => {
    const large = { instances: [PIXELS], parameters: { pad: 'x'.repeat(2 ** 20) } };
    writeFileSync(file, JSON.stringify(large));
    const resultWith = async (name: string, stack: object, ...options: readonly string[]) => {
      writeFileSync(inFolder('stack.json'), JSON.stringify({ ...dev.stack, ...stack }));
      await run('submit', file, '--ids', inFolder(`${name}.ids`), ...options);
      await run('collect', inFolder(`${name}.ids`), '--out', inFolder(name), '--timeout', '30', ...options);
      return linesOf(name);
    };
    expect(await resultWith('none', {})).toMatchObject([{ predictions: [{}] }]);
    const refused = [{ code: 'INVALID_POINTER' }];
    expect(await resultWith('file', { payloadPrefix: 'file/' })).toMatchObject(refused);
    const options = ['--payload-prefix', 'option/'];
    expect(await resultWith('option', { payloadPrefix: 'file/' }, ...options)).toMatchObject(refused);

    const s3 = localBucketClient(dev.stack.s3Endpoint, dev.stack.region);
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: dev.stack.payloadBucket }));
    s3.destroy();
    const places = Contents.map(({ Key = '' }) => Key.slice(0, -36)).toSorted();
    expect(places).toEqual(['file/requests/', 'option/requests/', 'requests/']);
  });

  it('take the file of cdk deploy --outputs-file for the stack', async () => {
    const outputs = { Network: { vpcId: 'vpc-1' }, Batchscore: JSON.parse(dev.firstLine) };
    writeFileSync(inFolder('stack.json'), JSON.stringify(outputs, null, 2));
    expect(await run('submit', file)).toMatchObject({ code: 0, stderr: '' });
  });

  it('want to know which of two deployments is meant', async () => {
    const deployment = JSON.parse(dev.firstLine);
    writeFileSync(inFolder('stack.json'), JSON.stringify({ One: deployment, Two: deployment }, null, 2));
    const { code, stderr } = await run('submit', file);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('hold one deployment') });
  });

  it('go on where they stopped, also after a last line that was cut short', async () => {
    await run('submit', file);
    const whole = readFileSync(`${file}.ids`, 'utf8');
    writeFileSync(`${file}.ids`, whole.slice(0, whole.trimEnd().lastIndexOf('\n') + 9));
    appendFileSync(file, `${LINES[0]}\n`);
    expect(JSON.parse((await run('submit', file)).stdout)).toMatchObject({ submitted: 2, before: 2 });
    expect(linesOf('requests.jsonl.ids').map((one) => (one as { line: number }).line)).toEqual([1, 3, 4, 5]);

    const out = inFolder('results.jsonl');
    await run('collect', `${file}.ids`, '--out', out, '--timeout', '30');
    const results = readFileSync(out, 'utf8');
    writeFileSync(out, results.slice(0, -20));
    expect((await run('collect', `${file}.ids`, '--out', out, '--timeout', '30')).code).toBe(3);
    expect(new Set(linesOf('results.jsonl').map((one) => (one as { message_id: string }).message_id)).size).toBe(4);
  });

  it('refuse the message IDs of a deployment that was started anew at the same address', async () => {
    const port = ['--port', String(await freePort()), '--no-function'];
    const first = await startDev(port);
    writeFileSync(inFolder('stack.json'), first.firstLine);
    expect(await run('submit', file)).toMatchObject({ code: 0 });
    await first.interrupt();
    // SQS tells when a queue was created in seconds.
    const lastSecond = Math.floor(Date.now() / 1000);
    await until(() => Math.floor(Date.now() / 1000) > lastSecond);
    const second = await startDev(port);
    expect(second.stack.requestQueueUrl).toBe(first.stack.requestQueueUrl);
    writeFileSync(inFolder('stack.json'), second.firstLine);
    const refused = { code: 1, stdout: '', stderr: expect.stringContaining('expected message IDs of arn:aws:sqs:') };
    expect(await run('submit', file)).toEqual(refused);
    expect(await run('collect', `${file}.ids`, '--out', inFolder('results.jsonl'))).toEqual(refused);
    expect(await run('submit', file, '--ids', inFolder('other.ids'))).toMatchObject({ code: 0 });
    await second.interrupt();
  });

  it.each([
    ['submit', 'precious', 'requests.jsonl', ['--ids', 'notes.txt']],
    ['submit', '{"id":"no newline"}', 'notes.txt', ['--ids', 'notes.txt']],
    ['collect', 'precious', 'ids', ['--out', 'notes.txt']],
    ['collect', 'precious\n', 'ids', ['--out', 'notes.txt']],
  ])(
    '%s leaves a file alone that is not its own: %j',
    async (command, content, positional, [option = '', target = '']) => {
      writeFileSync(inFolder('notes.txt'), content);
      writeFileSync(inFolder('ids'), '{"line":1,"message_id":"never"}\n');
      const { code, stderr } = await run(command, inFolder(positional), option, inFolder(target));
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('notes.txt: line 1') });
      expect(readFileSync(inFolder('notes.txt'), 'utf8')).toBe(content);
    },
  );

  it.each([
    [['submit'], 2, /expected FILE/],
    [['submit', '-'], 2, /--ids/],
    [['collect', 'ids'], 2, /--out/],
    [['submit', 'any', '--pack', '0'], 2, /--pack: expected a whole number from 1 to 10000, got '0'/],
    [['submit', 'any', '--pack', '10001'], 2, /--pack: expected a whole number from 1 to 10000/],
  ])('refuse %j with exit code %i', async (args, code, message) => {
    const finished = await run(...args);
    expect(finished).toMatchObject({ code, stderr: expect.stringMatching(message) });
  });
});
