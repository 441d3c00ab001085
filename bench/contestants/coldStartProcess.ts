/** Runs as a process: a function's start, from its first line until its first message is answered, and on until it rests. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type { ColdStart } from '../coldStartBench.ts';
import { answerParent } from '../harness/child.ts';

const { BARE: bare, ENTRY = '', RECORD = '' } = process.env;
const score = await (bare === undefined ? host() : runtimeAlone(bare));
const readySeconds = performance.now() / 1000;
await score(1);
const answeredSeconds = performance.now() / 1000;
const { userCPUTime, systemCPUTime, maxRSS: peak } = process.resourceUsage();

/** An invocation with so many messages. */
type Score = (messages: number) => Promise<unknown>;

async function host(): Promise<Score> {
  const { handler } = (await import(ENTRY)) as {
    handler: (event: SQSEvent, context: object) => Promise<SQSBatchResponse>;
  };
  const record: SQSRecord = JSON.parse(RECORD);
  return async (messages) => {
    const Records = Array.from({ length: messages }, (_, index) => ({ ...record, messageId: `${index}` }));
    const { batchItemFailures } = await handler({ Records }, { getRemainingTimeInMillis: () => 60_000 });
    if (batchItemFailures.length > 0) throw new Error('expected every message answered, got some to be retried');
  };
}

async function runtimeAlone(path: string): Promise<Score> {
  const { InferenceSession, Tensor } = await import('onnxruntime-node');
  const session = await InferenceSession.create(path, { executionProviders: ['cpu'] });
  const [{ name, shape, data }] = JSON.parse(JSON.parse(RECORD).body).inputs;
  return (rows) => {
    const values = Float32Array.from({ length: rows * data.length }, (_, index) => data[index % data.length]);
    return session.run({ [name]: new Tensor('float32', values, [rows, ...shape.slice(1)]) });
  };
}

/** What a start has put off takes a core until it is done. */
async function untilItRests(): Promise<void> {
  for (let quiet = 0; quiet < 3; ) {
    const before = process.cpuUsage();
    await sleep(LOOK_MS);
    const { user, system } = process.cpuUsage(before);
    quiet = user + system < IDLE_SHARE * 1000 * LOOK_MS ? quiet + 1 : 0;
  }
}
const LOOK_MS = 200;
const IDLE_SHARE = 0.1;
const EVENTS = 5;
const MESSAGES = 64;

answerParent(async (): Promise<ColdStart> => {
  await untilItRests();
  const { maxRSS: restPeak } = process.resourceUsage();
  let eventMs = Number.POSITIVE_INFINITY;
  for (let event = 0; event < EVENTS; event++) {
    const startedAt = performance.now();
    await score(MESSAGES);
    eventMs = Math.min(eventMs, performance.now() - startedAt);
  }
  return {
    readySeconds,
    answeredSeconds,
    cpuSeconds: (userCPUTime + systemCPUTime) / 1e6,
    peakBytes: peak * 1024,
    restPeakBytes: restPeak * 1024,
    eventMs,
  };
});
