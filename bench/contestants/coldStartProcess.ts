/** Process that measures the start of a function, from its first line to the first answer. */
import { readFileSync } from 'node:fs';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type { ColdStart } from '../coldStartBench.ts';
import { answerParent } from '../harness/child.ts';

/** Clock ticks per second of the times in `/proc`. */
const TICKS_PER_SECOND = 100;
const { BARE: bare, ENTRY = '', RECORD = '' } = process.env;
const score = await (bare === undefined ? host() : runtimeAlone(bare));
const readySeconds = performance.now() / 1000;
await score();
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

/** Scores one row. */
type Score = () => Promise<unknown>;

async function host(): Promise<Score> {
  const { handler } = (await import(ENTRY)) as {
    handler: (event: SQSEvent, context: object) => Promise<SQSBatchResponse>;
  };
  const Records: SQSRecord[] = [JSON.parse(RECORD)];
  return async () => {
    const { batchItemFailures } = await handler({ Records }, { getRemainingTimeInMillis: () => 60_000 });
    if (batchItemFailures.length > 0) throw new Error('expected the message answered, got it to be retried');
  };
}

async function runtimeAlone(path: string): Promise<Score> {
  const { InferenceSession, Tensor } = await import('onnxruntime-node');
  const session = await InferenceSession.create(path, { executionProviders: ['cpu'] });
  const [{ name, shape, data }] = JSON.parse(JSON.parse(RECORD).body).inputs;
  return () => session.run({ [name]: new Tensor('float32', Float32Array.from(data), shape) });
}

answerParent((): ColdStart => ({ readySeconds, answeredSeconds, ...untilAnswered }));
