import { readFileSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { useFolder } from '../../helpers/folders.ts';

const sqs = useSqsServer();
const LINES = Array.from({ length: 24 }, (_, turn) =>
  JSON.stringify({ id: `r-${turn}`, instances: [[turn]], parameters: { customer: turn % 3, name: `c${turn % 3}` } }),
);

describe('batchscore submit to a FIFO queue', () => {
  const inFolder = useFolder();
  let file: string;
  beforeEach(() => {
    file = inFolder('requests.jsonl');
    writeFileSync(file, `${LINES.join('\n')}\n`);
  });

  const submit = (requestQueueUrl: string, ...args: readonly string[]) => {
    const stack = inFolder('stack.json');
    writeFileSync(
      stack,
      JSON.stringify({ endpoint: new URL(requestQueueUrl).origin, region: 'us-east-1', requestQueueUrl }),
    );
    return batchscore(['submit', file, '--stack', stack, '--json', ...args]);
  };
  /** By message group, the IDs of its requests in the order in which they come. */
  const groupsOn = async (queueUrl: string): Promise<Record<string, string[]>> => {
    const groups: Record<string, string[]> = {};
    for (const { Body = '', Attributes } of await sqs.drain(queueUrl)) {
      const own: { id: string }[] = [JSON.parse(Body)].flat();
      const group = Attributes?.MessageGroupId ?? 'none';
      groups[group] = [...(groups[group] ?? []), ...own.map(({ id }) => id)];
    }
    return groups;
  };
  const idsOf = (rest: number) => LINES.flatMap((_, turn) => (turn % 3 === rest ? [`r-${turn}`] : []));

  it.each([
    ['parameters.name', 'c', []],
    ['parameters.customer', '', []],
    ['parameters.name', 'c', ['--pack', '10000']],
  ])('takes the group of each request from %s (%s)', async (path, prefix, more) => {
    const queue = sqs.fifoQueue();
    const { code, stdout, stderr } = await submit(queue, '--group-by', path, ...more);
    expect([code, stderr, JSON.parse(stdout)]).toMatchObject([0, '', { submitted: LINES.length }]);
    expect(await groupsOn(queue)).toEqual(
      Object.fromEntries([0, 1, 2].map((rest) => [`${prefix}${rest}`, idsOf(rest)])),
    );
  });

  it('names one group for all of them', async () => {
    const queue = sqs.fifoQueue();
    expect(await submit(queue, '--group', 'nightly')).toMatchObject({ code: 0, stderr: '' });
    expect(await groupsOn(queue)).toEqual({ nightly: LINES.map((_, turn) => `r-${turn}`) });
  });

  it('is told to name groups, and sends nothing, where none are', async () => {
    const queue = sqs.fifoQueue();
    expect(await submit(queue)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /expected --group NAME or --group-by PATH, as the request queue is a FIFO queue, got neither/,
      ),
    });
    expect(await groupsOn(queue)).toEqual({});
  });

  it.each([
    ['{"id":"a","instances":[[1]]}', 'got nothing there'],
    ['{"id":"a","parameters":{"customer":{}}}', 'got an object'],
    ['{"id":"a","parameters":{"customer":""}}', 'got ""'],
    ['[1', 'got nothing there'],
  ])('says which line has no group: %s', async (line, got) => {
    const queue = sqs.fifoQueue();
    writeFileSync(file, `${LINES[0]}\n\n${line}\n`);
    const { code, stderr } = await submit(queue, '--group-by', 'parameters.customer');
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(
        `line 3: expected a text or a number at parameters.customer, its message group, ${got}; `,
      ),
    ]);
    expect(await groupsOn(queue)).toEqual({});
    expect(readFileSync(`${file}.ids`, 'utf8')).toBe('');
  });

  it('refuses both', async () => {
    const refused = await submit(sqs.fifoQueue(), '--group', 'a', '--group-by', 'id');
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('--group or --group-by, got both') });
  });
});
