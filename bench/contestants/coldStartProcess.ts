/** Process that measures the start of a function, from its first line to the first answer and until it is idle. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type { ColdStart } from '../coldStartBench.ts';
import { answerParent } from '../harness/child.ts';

/** Clock ticks per second of the times in `/proc`. */
const TICKS_PER_SECOND = 100;
const { BARE: bare, ENTRY = '', RECORD = '' } = process.env;
const score = await (bare === undefined ? host() : runtimeAlone(bare));
const readySeconds = performance.now() / 1000;
await score(1);
const answeredSeconds = performance.now() / 1000;
const untilAnswered = usage();

/** Returns the CPU time and the peak memory of this process and its scorer. */
function usage(): { readonly cpuSeconds: number; readonly peakBytes: number } {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  const all = ['self', ...children].map((pid) => {
    // The command name, in parentheses, may contain spaces and parentheses.
    const [, , , , , , , , , , , user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    const [, peakKib] = /VmHWM:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return { ticks: Number(user) + Number(system), peakKib: Number(peakKib) };
  });
  return {
    cpuSeconds: all.reduce((sum, { ticks }) => sum + ticks, 0) / TICKS_PER_SECOND,
    peakBytes: 1024 * all.reduce((sum, { peakKib }) => sum + peakKib, 0),
  };
}

/** Invokes the function with `messages` messages. */
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

/** Waits until work that the start deferred is done. It uses a core until then. */
async function untilItRests(): Promise<void> {
  for (let quiet = 0; quiet < 3; ) {
    const before = usage().cpuSeconds;
    await sleep(LOOK_MS);
    quiet = usage().cpuSeconds - before < (IDLE_SHARE * LOOK_MS) / 1000 ? quiet + 1 : 0;
  }
}
const LOOK_MS = 200;
const IDLE_SHARE = 0.1;
const EVENTS = 5;
const MESSAGES = 64;

answerParent(async (): Promise<ColdStart> => {
  await untilItRests();
  const { peakBytes: restPeakBytes } = usage();
  let eventMs = Number.POSITIVE_INFINITY;
  for (let event = 0; event < EVENTS; event++) {
    const startedAt = performance.now();
    await score(MESSAGES);
    eventMs = Math.min(eventMs, performance.now() - startedAt);
  }
  return {
    readySeconds,
    answeredSeconds,
    ...untilAnswered,
    restPeakBytes,
    eventMs,
  };
});
