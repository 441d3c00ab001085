import { readFileSync, writeFileSync } from 'node:fs';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { putModel } from '../../contract/cli/models.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import {
  type InTerminal,
  isRestored,
  runScript,
  startInTerminal,
  type TerminalOptions,
  widestLine,
} from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { answersJson, type FrontServer, type Step, startFront } from '../../helpers/frontServer.ts';
import { turningModel } from '../../helpers/onnxModels.ts';

jest.setTimeout(20_000);

const CTRL_C = '\x03';
/** One asks the queue which it is, and twenty take the 200 requests that submit sends before it notes their IDs. */
const CALLS_OF_FIRST_BATCH = 21;
const REFUSAL = answersJson(400, { __type: 'com.amazonaws.sqs#InvalidSecurity', message: 'not over this line' });

describe('in a terminal', () => {
  const sqs = useSqsServer();
  const inFolder = useFolder();
  let queueUrl: string;
  let front: FrontServer | undefined;
  let terminal: InTerminal | undefined;
  beforeEach(() => {
    queueUrl = sqs.queue();
  });
  afterEach(async () => {
    terminal?.close();
    await front?.stop();
  });

  const linesOf = (name: string): string[] => readFileSync(inFolder(name), 'utf8').trimEnd().split('\n');
  const writeLines = (name: string, count: number, line: (index: number) => string): void =>
    writeFileSync(inFolder(name), Array.from({ length: count }, (_, index) => `${line(index)}\n`).join(''));
  const start = (args: readonly string[], options?: TerminalOptions): InTerminal => {
    terminal = startInTerminal('cli/batchscore.ts', args, options);
    return terminal;
  };

  /** A deployment whose SQS answers the first calls as it should, and the next ones by `step`. */
  async function deploymentThatAnswers(calls: number, step: Step): Promise<void> {
    const steps = [...new Array<undefined>(calls).fill(undefined), ...new Array<Step>(1000).fill(step)];
    front = await startFront(new URL(queueUrl).origin, steps);
    const stack = {
      endpoint: front.endpoint,
      region: 'us-east-1',
      requestQueueUrl: queueUrl,
      resultQueueUrl: queueUrl,
    };
    writeFileSync(inFolder('stack.json'), `${JSON.stringify(stack)}\n`);
  }

  /** Answers once it is let go. */
  function holding(): { readonly step: Step; release(): void } {
    const released = Promise.withResolvers<void>();
    const step: Step = async ({ reach, response }) => {
      await released.promise;
      const { status, headers, body } = await reach();
      response.writeHead(status, headers).end(body);
    };
    return { step, release: released.resolve };
  }

  describe('submit', () => {
    const args = (): string[] => ['submit', inFolder('in.jsonl'), '--stack', inFolder('stack.json')];
    beforeEach(() => writeLines('in.jsonl', 600, (index) => `{"id":"${1000 + index}"}`));

    it('stops at Ctrl-C once what is being sent is noted, and goes on from there when it runs again', async () => {
      const held = holding();
      await deploymentThatAnswers(CALLS_OF_FIRST_BATCH, held.step);
      const { shows, press, ended, output } = start(args());
      await shows(/submitting .* 33 %/);
      press(CTRL_C);
      await shows(/finishing the requests that are being sent; Ctrl-C again leaves at once/);
      held.release();
      expect(await ended()).toBe(130);
      expect(output()).toMatch(/400 requests submitted \(0 before\).*\s+stopped; run the same command again to go on/);
      expect(isRestored(output())).toBe(true);
      expect(linesOf('in.jsonl.ids')).toHaveLength(400);

      const again = await runScript('cli/batchscore.ts', [...args(), '--json']);
      expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('"submitted":200,"before":400') });
      const bodies = (await sqs.drain(queueUrl)).map(({ Body }) => Body);
      expect(bodies.toSorted()).toEqual(linesOf('in.jsonl').toSorted());
    });

    it('ends with its sentence when the queue refuses', async () => {
      await deploymentThatAnswers(CALLS_OF_FIRST_BATCH, REFUSAL);
      const { ended, output } = start(args());
      expect(await ended()).toBe(1);
      expect(output()).toMatch(
        /batchscore: line 201: the request queue [\w-]+ did not take it: [^;]*; correct that, then run the same command again\r?\n/,
      );
      expect(isRestored(output())).toBe(true);
    });

    it.each([200, 80, 30, 12, 3])('draws within %i columns', async (columns) => {
      await deploymentThatAnswers(CALLS_OF_FIRST_BATCH, REFUSAL);
      const { ended, output } = start(args(), { columns });
      await ended();
      const drawn = output().slice(0, output().indexOf('batchscore: line'));
      expect(drawn).toContain(columns < 4 ? '33' : '33 %');
      expect(widestLine(drawn)).toBeLessThan(columns);
    });

    it('follows the width of a window that is made narrower', async () => {
      const held = holding();
      await deploymentThatAnswers(CALLS_OF_FIRST_BATCH, held.step);
      const { shows, resize, ended, output } = start(args());
      await shows(/submitting {2}=+-+ 33 %/);
      resize(35);
      // The process hears of it some time later, and draws anew.
      await shows(/submitting {2}[=-]{5,13} 33 %/);
      const before = output().length;
      held.release();
      expect(await ended()).toBe(0);
      const after = output().slice(before, output().indexOf('600 requests submitted'));
      expect(after).toContain('100 %');
      expect(widestLine(after)).toBeLessThan(35);
    });
  });

  describe('collect', () => {
    it('stops at Ctrl-C with what came, and says how to get the others', async () => {
      await deploymentThatAnswers(1000, REFUSAL);
      writeLines('ids', 2, (index) => `{"line":${index + 1},"message_id":"message-${index}"}`);
      const MessageBody = '{"message_id":"message-0","code":"INVALID_JSON","error":"no JSON"}';
      const MessageAttributes = { messageId: { DataType: 'String', StringValue: 'message-0' } };
      await sqs.client().send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody, MessageAttributes }));
      const options = ['--out', inFolder('results.jsonl'), '--stack', inFolder('stack.json')];
      const { shows, press, ended, output } = start(['collect', inFolder('ids'), ...options]);
      await shows(/collecting .* 50 %, 1 error /);
      press(CTRL_C);
      expect(await ended()).toBe(130);
      expect(output()).toMatch(/1 of 2 results are in .*\s+stopped; run the same command again to get the others/);
      expect(isRestored(output())).toBe(true);
      expect(linesOf('results.jsonl')).toHaveLength(1);
    });
  });

  describe('score', () => {
    const request = (turns: number): string => `{"instances":[${turns}]}`;
    const FOR_EVER = 4e12;

    it('shows the share of the rows that are written, and stops at Ctrl-C with these', async () => {
      const model = await putModel(inFolder(), 'turning', turningModel());
      writeLines('in.jsonl', 100, () => request(200_000));
      writeLines('out.jsonl', 1, () => 'of before');
      const options = ['--batch-size', '1', '--out', inFolder('out.jsonl')];
      const { shows, press, ended, output } = start(['score', model, inFolder('in.jsonl'), ...options]);
      await shows(/scoring .* [1-9]\d? %, \d+ rows\/s, \d+ s left/);
      press(CTRL_C);
      expect(await ended()).toBe(130);
      const scored = Number(/(\d+) lines in .* scored/.exec(output())?.[1]);
      expect(scored).toBeLessThan(100);
      expect(linesOf('out.jsonl.part')).toHaveLength(scored);
      expect(linesOf('out.jsonl')).toEqual(['of before']);
      const shares = [...output().matchAll(/ (\d+) %/g)].map(([, share]) => Number(share));
      expect(Math.max(...shares)).toBeLessThanOrEqual(scored);
      expect(output()).toMatch(/stopped; the results of the first \d+ lines are in .*out\.jsonl\.part/);
      expect(isRestored(output())).toBe(true);
    });

    it('draws nothing where the terminal cannot move its cursor', async () => {
      writeLines('in.jsonl', 3, () => '{}');
      const out = ['--out', inFolder('out.jsonl')];
      const { ended, output } = start(['score', 'models/digits', inFolder('in.jsonl'), ...out], { term: 'dumb' });
      expect(await ended()).toBe(3);
      expect(output()).toMatch(/^\S+\r\n3 lines in .*\r\nINVALID_REQUEST, first in line 1: .*\r\n$/);
      expect(output()).not.toContain('\x1b');
    });

    it('ends at a second Ctrl-C although the model is busy for ever', async () => {
      const model = await putModel(inFolder(), 'turning', turningModel());
      writeLines('in.jsonl', 2, (index) => request(index === 0 ? 1 : FOR_EVER));
      const { shows, press, ended, output } = start(['score', model, inFolder('in.jsonl'), '--batch-size', '1']);
      await shows(/"message_id":"1"/);
      press(CTRL_C);
      await shows(/finishing the lines that are being scored; Ctrl-C again leaves at once/);
      press(CTRL_C);
      expect(await ended()).toBe(130);
      expect(isRestored(output())).toBe(true);
    });
  });
});
