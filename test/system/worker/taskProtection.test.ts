import { describe, expect, it } from '@jest/globals';
import { type ProtectionState, protectionAt, protectTask } from '../../../lambda/hosts/task.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { answersJson, hangsUp, neverAnswers, type Step, startFront } from '../../helpers/frontServer.ts';
import { deployment, lookup, SLOW, slow, until } from '../../helpers/hosts.ts';
import { createManualClock } from '../../helpers/manualClock.ts';
import { afterThisTest } from '../../helpers/openModels.ts';

const server = useSqsServer();
const ON: ProtectionState = { ProtectionEnabled: true, ExpiresInMinutes: 10 };
const OFF: ProtectionState = { ProtectionEnabled: false };
/** Two signals within 200 ms come from one press of Ctrl-C. */
const SAME_PRESS_MS = 250;
const DONE = answersJson(200, { protection: { ProtectionEnabled: true, TaskArn: 'arn' } });
const FAILED = answersJson(200, { failure: { Arn: 'arn', Reason: 'DEPLOYMENT_BLOCKED' } });

/** A worker that is busy when it is said to be, and an agent that refuses as often as it is told. */
function protection({ refusals = 0 } = {}) {
  const clock = createManualClock();
  const states: ProtectionState[] = [];
  const problems: unknown[] = [];
  let busy = false;
  let left = refusals;
  const end = protectTask({
    async put(state) {
      states.push(state);
      if (left-- > 0) throw new Error('not now');
    },
    isBusy: () => busy,
    onProblem: (error) => void problems.push(error),
    clock,
  });
  const pass = async (seconds: number, isBusy: boolean): Promise<void> => {
    busy = isBusy;
    for (let second = 0; second < seconds; second++) {
      clock.advance(1_000);
      await new Promise(setImmediate);
    }
  };
  return { states, problems, end, busy: (seconds: number) => pass(seconds, true), idle: (s: number) => pass(s, false) };
}

describe('task protection', () => {
  it('is on once the worker is busy, and off when it has been idle for a while', async () => {
    const { states, busy, idle } = protection();

    await idle(60);
    expect(states).toEqual([]);
    await busy(5);
    await idle(14);
    await busy(1);
    await idle(14);
    expect(states).toEqual([ON]);
    await idle(1);
    expect(states).toEqual([ON, OFF]);
    await idle(60);
    await busy(1);

    expect(states).toEqual([ON, OFF, ON]);
  });

  it('lapses for a minute where the worker is never idle, so that deployments get through', async () => {
    const { states, busy } = protection();

    await busy(11 * 60);
    expect(states).toEqual([ON]);
    await busy(2);

    expect(states).toEqual([ON, ON]);
  });

  it('ends with the worker', async () => {
    const { states, busy, end, idle } = protection();

    await busy(2);
    await end();
    await idle(60);

    expect(states).toEqual([ON, OFF]);
  });

  it('goes on where the agent refuses, and says so', async () => {
    const { states, problems, busy, idle } = protection({ refusals: 1 });

    await busy(2);
    await idle(20);

    expect(problems.map(String)).toEqual(['Error: task protection: not now']);
    expect(states).toEqual([ON, OFF]);
  });
});

describe('the ECS agent', () => {
  it.each<[what: string, step: Step, error: RegExp]>([
    ['that refuses', answersJson(400, { error: { Code: 'AccessDeniedException' } }), /got 400: .*AccessDenied/],
    ['that fails with a status of 200', FAILED, /got 200: .*DEPLOYMENT_BLOCKED/],
    ['that hangs up', hangsUp, /fetch failed/],
    ['that never answers', neverAnswers, /timeout/],
  ])('%s is an error in time', async (_, step, error) => {
    const front = await startFront(undefined, [step]);
    afterThisTest(front.stop);

    await expect(protectionAt(front.endpoint)(ON)).rejects.toThrow(error);
  });

  it('is not waited for by a worker that is to end at once', async () => {
    const front = await startFront(undefined, Array<Step>(10).fill(DONE));
    afterThisTest(front.stop);
    const { requestQueueUrl, start } = await deployment(server, {
      models: SLOW,
      environment: { ECS_AGENT_URI: front.endpoint, BATCHSCORE_STOP_SECONDS: '60' },
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, [slow(4_900)]);
    await until(() => front.requests.length === 1);
    worker.send('SIGTERM');
    await worker.says('told to end');
    const toldAt = Date.now();
    await until(() => Date.now() > toldAt + SAME_PRESS_MS);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 1, signal: null });
    expect(front.requests.map(({ body }) => JSON.parse(body))).toEqual([ON]);
  });

  it('is told by a worker that is busy, and when it ends', async () => {
    const front = await startFront(undefined, Array<Step>(10).fill(DONE));
    afterThisTest(front.stop);
    const { requestQueueUrl, start, results } = await deployment(server, {
      environment: { ECS_AGENT_URI: front.endpoint },
    });
    const worker = start();
    await worker.says('the worker is ready');
    const sending = setInterval(() => server.send(requestQueueUrl, [lookup(0), lookup(1)]), 50);
    await results(1);
    while (front.requests.length === 0) await results(1).then(() => new Promise(setImmediate));
    clearInterval(sending);
    worker.send('SIGTERM');
    await worker.ended;

    const told = front.requests.map(({ method, path, body }) => ({ method, path, state: JSON.parse(body) }));
    expect(told).toEqual([ON, OFF].map((state) => ({ method: 'PUT', path: '/task-protection/v1/state', state })));
  });
});
