import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { GetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { REPOSITORY, runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';

describe('SIGTERM', () => {
  const sqs = useSqsServer();
  const inFolder = useFolder();

  async function messagesOn(QueueUrl: string): Promise<string | undefined> {
    const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['ApproximateNumberOfMessages'] });
    return (await sqs.client().send(command)).Attributes?.ApproximateNumberOfMessages;
  }

  /** Then the command waits for more of stdin. */
  async function untilNoted(lines: number, ids: string): Promise<void> {
    for (let noted = 0; noted < lines; ) {
      const content = await readFile(ids, 'utf8').catch(() => '');
      noted = content.split('\n').length - 1;
    }
  }

  it('ends a submit that waits for more of stdin, with what was sent in the ids file and no half line sent', async () => {
    const requestQueueUrl = sqs.queue();
    const stack = { endpoint: new URL(requestQueueUrl).origin, region: 'us-east-1', requestQueueUrl };
    const [ids, stackFile] = [inFolder('ids'), inFolder('stack.json')];
    writeFileSync(stackFile, JSON.stringify(stack));
    const child = spawn(process.execPath, ['cli/batchscore.ts', 'submit', '-', '--ids', ids, '--stack', stackFile], {
      cwd: REPOSITORY,
    });
    const closed = once(child, 'close');
    const output = Promise.all([text(child.stdout), text(child.stderr)]);
    child.stdin.write(`${'{"id":"whole"}\n'.repeat(201)}{"id":"ha`);
    await untilNoted(200, ids);
    child.kill('SIGTERM');
    expect(await closed).toEqual([143, null]);
    expect(await output).toEqual([
      expect.stringContaining('200 requests submitted (0 before)'),
      'stopped; run the same command again to go on\n',
    ]);
    expect((await readFile(ids, 'utf8')).trimEnd().split('\n')).toHaveLength(200);
    expect(await messagesOn(requestQueueUrl)).toBe('200');
  });
});

describe('results that cannot be written', () => {
  it('are one sentence that says why', async () => {
    const args = ['score', 'models/digits', 'examples/requests.jsonl'];
    const { code, stderr } = await runScript('cli/batchscore.ts', args, { stdoutFile: '/dev/full' });
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'batchscore: ENOSPC: no space left on device, write\n' });
  });
});
