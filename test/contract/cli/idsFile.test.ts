import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { ALIVE, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { useFolder } from '../../helpers/folders.ts';
import { answersJson, giveAnswer, type Step } from '../../helpers/frontServer.ts';

const requestOf = (id: string): string => JSON.stringify({ id, instances: [[1]] });
const requests = (prefix: string, count: number): string =>
  Array.from({ length: count }, (_, index) => `${requestOf(`${prefix}-${index}`)}\n`).join('');
const DENIED = answersJson(403, { __type: 'com.amazonaws.sqs#AccessDenied', message: 'not you' });
/** Of a queue whose attributes this caller may not read. */
const hidesAttributes: Step = (exchange) =>
  String(exchange.headers['x-amz-target']).endsWith('GetQueueAttributes') ? DENIED(exchange) : giveAnswer(exchange);

describe('the ids file of batchscore submit', () => {
  const sqs = useSqsServer();
  const inFolder = useFolder();
  let file: string;
  let ids: string;
  let queue: string;
  beforeEach(() => {
    file = inFolder('requests.jsonl');
    ids = `${file}.ids`;
    queue = sqs.queue();
  });

  const stackOf = (requestQueueUrl: string, endpoint = new URL(requestQueueUrl).origin): string => {
    const stack = inFolder('stack.json');
    writeFileSync(stack, JSON.stringify({ endpoint, region: 'us-east-1', requestQueueUrl }));
    return stack;
  };
  const submit = (requestQueueUrl: string, ...args: readonly string[]) =>
    batchscore(['submit', file, '--stack', stackOf(requestQueueUrl), ...args]);
  const idsSentTo = async (queueUrl: string): Promise<string[]> => {
    const bodies = (await sqs.drain(queueUrl)).flatMap(({ Body = '' }) => JSON.parse(Body) as { id: string }[]);
    return bodies.map(({ id }) => id).toSorted();
  };
  /** Nothing was sent or noted, and the sentence says why and what to do. */
  const expectRefused = async (
    { code, stdout, stderr }: Awaited<ReturnType<typeof batchscore>>,
    noted: string,
    ...sentences: readonly (string | RegExp)[]
  ): Promise<void> => {
    expect([code, stdout]).toEqual([1, '']);
    for (const sentence of sentences) expect(stderr).toMatch(sentence);
    expect(stderr).toContain('give another --ids FILE');
    expect(readFileSync(ids, 'utf8')).toBe(noted);
  };

  it.each([[[]], [['--pack', '7']]])(
    'lets a file that was appended to go on, and one whose line ends were converted: %j',
    async (options) => {
      writeFileSync(file, requests('a', 50));
      expect(await submit(queue, ...options)).toMatchObject({ code: 0, stderr: '' });
      await sqs.drain(queue);
      writeFileSync(file, `\uFEFF${readFileSync(file, 'utf8').replaceAll('\n', '\r\n')}`);
      appendFileSync(file, requests('b', 3));
      expect(await submit(queue, ...options)).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('3 requests submitted (50 before)'),
      });
      expect(await idsSentTo(queue)).toEqual(['b-0', 'b-1', 'b-2']);
    },
  );

  it.each([
    ['all lines', requests('b', 80), /requests\.jsonl: line 1: expected the request that was submitted/],
    ['one line', `${requests('a', 49)}${requestOf('b')}\n${requests('c', 30)}`, /requests\.jsonl: line 50: expected/],
    ['a line before the others', `${requestOf('b')}\n${requests('a', 50)}`, /requests\.jsonl: line 1: expected/],
    ['a blank line before the others', `\n${requests('a', 50)}`, /requests\.jsonl: line 2: expected/],
  ])('refuses a file that was overwritten: %s', async (_, content, sentence) => {
    writeFileSync(file, requests('a', 50));
    await submit(queue);
    await sqs.drain(queue);
    const noted = readFileSync(ids, 'utf8');
    writeFileSync(file, content);
    await expectRefused(await submit(queue), noted, sentence);
    expect(await idsSentTo(queue)).toEqual([]);
  });

  it.each([
    ['ends sooner', requests('a', 30)],
    ['has lost a line', requests('a', 50).replace(`${requestOf('a-30')}`, '')],
  ])('refuses a file that %s', async (_, content) => {
    writeFileSync(file, requests('a', 50));
    await submit(queue);
    const noted = readFileSync(ids, 'utf8');
    writeFileSync(file, content);
    await expectRefused(await submit(queue), noted, /expected the 50 requests that were submitted.*line 31/);
  });

  it('refuses stdin that holds other requests', async () => {
    const submitStdin = (stdin: string) => batchscore(['submit', '-', '--ids', ids, '--stack', stackOf(queue)], stdin);
    expect(await submitStdin(requests('a', 5))).toMatchObject({ code: 0 });
    await expectRefused(await submitStdin(requests('b', 5)), readFileSync(ids, 'utf8'), /stdin: line 1: expected/);
  });

  it('refuses another queue', async () => {
    writeFileSync(file, requests('a', 5));
    await submit(queue);
    const [other, noted] = [sqs.queue(), readFileSync(ids, 'utf8')];
    await expectRefused(await submit(other), noted, /requests\.jsonl\.ids: line 1: expected message IDs of .*queue-\d/);
    expect(await idsSentTo(other)).toEqual([]);
  });

  it('refuses a file of an older version, which says neither queue nor requests', async () => {
    writeFileSync(file, requests('a', 5));
    const older = '{"line":1,"message_id":"one"}\n{"line":2,"message_id":"two"}\n';
    writeFileSync(ids, older);
    await expectRefused(await submit(queue), older, /requests\.jsonl\.ids: line 1: expected .*older version/);
    expect(await idsSentTo(queue)).toEqual([]);
  });

  it.each(['{"li', '{"line":1,"message_id":"one","di'])(
    'begins anew after a first line that was cut short: %s',
    async (cut) => {
      writeFileSync(file, requests('a', 3));
      writeFileSync(ids, cut);
      expect(await submit(queue)).toMatchObject({ code: 0, stderr: '' });
      expect(await idsSentTo(queue)).toEqual(['a-0', 'a-1', 'a-2']);
      expect(await submit(queue)).toMatchObject({ code: 0, stdout: expect.stringContaining('(3 before)') });
    },
  );

  it('may be a device or a pipe, which nothing lies beside', async () => {
    writeFileSync(file, requests('a', 2));
    expect(await submit(queue, '--ids', '/dev/null')).toMatchObject({ code: 0, stderr: '' });
    expect(await submit(queue, '--ids', inFolder('none', 'ids'))).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/expected a folder for it, got none/),
    });
  });

  it('sends nothing where the queue cannot be told from one of the same name, and says which permission it lacks', async () => {
    writeFileSync(file, requests('a', 2));
    const front = await sqs.front(...new Array<Step>(9).fill(hidesAttributes));
    const stack = stackOf(queue, front.endpoint);
    const { code, stderr } = await batchscore(['submit', file, '--stack', stack]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /expected .* to say when it was created, got AccessDenied: not you; allow sqs:GetQueueAttributes/,
      ),
    ]);
    expect(await idsSentTo(queue)).toEqual([]);
  });
});

describe('batchscore collect', () => {
  const deployments = useDeployments();
  const inFolder = useFolder();

  it('refuses message IDs of another request queue, and does not call their results its own', async () => {
    const { resultQueueUrl } = await deployments.create('queue');
    const { resultQueueUrl: requestQueueUrl } = await deployments.create('queue');
    const line = { line: 1, message_id: 'a', digest: '0'.repeat(32), queues: '0'.repeat(32) };
    writeFileSync(inFolder('ids'), `${JSON.stringify(line)}\n`);
    writeFileSync(inFolder('out'), '{"message_id":"a","predictions":[1]}\n');
    const stack = { endpoint: new URL(resultQueueUrl).origin, region: 'us-east-1', resultQueueUrl, requestQueueUrl };
    writeFileSync(inFolder('stack.json'), JSON.stringify(stack));
    const args = ['collect', inFolder('ids'), '--out', inFolder('out'), '--stack', inFolder('stack.json')];
    expect(await batchscore(args)).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /ids: expected message IDs of .*, created 20.*, got those of another queue, .*; name the deployment/,
      ),
    });
  });

  it('says which results in FILE are of other message IDs, and does not count their errors', async () => {
    const { writer, resultQueueUrl } = await deployments.create('queue');
    await writer.write([resultOf('a')], ALIVE);
    writeFileSync(inFolder('ids'), '{"line":1,"message_id":"a"}\n');
    writeFileSync(inFolder('out'), '{"message_id":"old","code":"INVALID_JSON","error":"no JSON"}\n');
    const stack = { endpoint: new URL(resultQueueUrl).origin, region: 'us-east-1', resultQueueUrl };
    writeFileSync(inFolder('stack.json'), JSON.stringify(stack));
    const args = ['collect', inFolder('ids'), '--out', inFolder('out'), '--stack', inFolder('stack.json')];
    expect(await batchscore(args)).toEqual({
      code: 0,
      stdout: `1 of 1 result is in ${inFolder('out')}, 0 with an error\n`,
      stderr: `${inFolder('out')} also holds 1 result of other message IDs\n`,
    });
  });

  it('says that an ids file was cut short, and what makes it whole', async () => {
    const { resultQueueUrl } = await deployments.create('queue');
    writeFileSync(inFolder('ids'), '{"line":1,"message_id":"a"}\n{"line":2,"mess');
    const stack = { endpoint: new URL(resultQueueUrl).origin, region: 'us-east-1', resultQueueUrl };
    writeFileSync(inFolder('stack.json'), JSON.stringify(stack));
    const args = ['collect', inFolder('ids'), '--out', inFolder('out'), '--stack', inFolder('stack.json')];
    expect(await batchscore(args)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /ids: expected whole lines, got line 2 that was cut short.*run batchscore submit again/,
      ),
    });
  });
});
