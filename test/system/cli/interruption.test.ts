import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { GetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { REPOSITORY, runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { CULPRIT, culpritModel, identityModel } from '../../helpers/onnxModels.ts';
import { scorersOf } from '../../helpers/processes.ts';

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

describe('a command whose model is in a run that does not end', () => {
  const inFolder = useFolder();

  function scoring() {
    mkdirSync(inFolder('culprit/1'), { recursive: true });
    writeFileSync(inFolder('culprit/1/model.onnx'), culpritModel());
    const child = spawn(process.execPath, ['cli/batchscore.ts', 'score', inFolder('culprit'), '-'], {
      cwd: REPOSITORY,
    });
    const [closed, said, scored] = [once(child, 'close'), text(child.stderr), once(child.stdout, 'data')];
    const rows = [...Array<number>(2_000).fill(1), CULPRIT.hangs, ...Array<number>(2_000).fill(1)];
    child.stdin.on('error', () => {});
    child.stdin.write(rows.map((index) => `${JSON.stringify({ instances: [index] })}\n`).join(''));
    return { child, closed, said, scored };
  }

  it('ends by one SIGTERM, after it had time to finish', async () => {
    const { child, closed, said } = scoring();
    await untilBusy(child.pid);

    child.kill('SIGTERM');

    expect(await closed).toEqual([143, null]);
    expect(await said).toMatch(/stopped after 10 s without finishing the lines that are being scored\n$/);
  });

  /** Until a thread of its scorer has run for seconds: no other does here. */
  async function untilBusy(pid = 0): Promise<void> {
    // Threads may end while they are looked at.
    const ticksOf = (task: string): Promise<number> =>
      readFile(task, 'utf8')
        .then((stat) => Number(stat.split(' ')[13]))
        .catch(() => 0);
    for (let busiest = 0; busiest < 300; ) {
      const [scorer] = scorersOf(pid);
      const tasks = scorer === undefined ? [] : await readdir(`/proc/${scorer}/task`).catch(() => []);
      busiest = Math.max(0, ...(await Promise.all(tasks.map((task) => ticksOf(`/proc/${scorer}/task/${task}/stat`)))));
    }
  }
});

describe('a model whose batch axis is fixed at 0', () => {
  const inFolder = useFolder();

  it.each([
    ['inspect', ['inspect', 'm']],
    ['score', ['score', 'm', 'rows.jsonl']],
    ['dev', ['dev', '--models', '.', '--port', '0']],
    ['profile', ['profile', 'm']],
  ])('is refused at once by %s', async (_, args) => {
    mkdirSync(inFolder('m/1'), { recursive: true });
    writeFileSync(inFolder('m/1/model.onnx'), identityModel('FP32', [0, 3]));
    writeFileSync(inFolder('rows.jsonl'), '{"instances":[[1,2,3]]}\n');

    const { code, stdout, stderr } = await runScript('cli/batchscore.ts', args, { cwd: inFolder('.') });

    expect(code).toBe(1);
    expect(`${stdout}${stderr}`).toContain(
      "input 'x': expected a batch axis with room for rows, but the batch axis is fixed at 0; export the model with a dynamic batch axis",
    );
  });
});

describe('results that cannot be written', () => {
  it('are one sentence that says why', async () => {
    const args = ['score', 'models/digits', 'examples/requests.jsonl'];
    const { code, stderr } = await runScript('cli/batchscore.ts', args, { stdoutFile: '/dev/full' });
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'batchscore: ENOSPC: no space left on device, write\n' });
  });
});
