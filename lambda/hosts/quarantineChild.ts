/** The process in which redelivered messages of one model are scored. `quarantine.ts` starts it and ends it. */

import { Worker } from 'node:worker_threads';
import { timeoutSignal } from '../core/concurrency.ts';
import { isFailure, messageOf } from '../core/failure.ts';
import { createLatencyEstimator, createMemoryCeiling } from '../core/latency.ts';
import { withDefaults } from '../core/model.ts';
import { type Observer, SILENT } from '../core/observer.ts';
import { plan } from '../core/plan.ts';
import type { Reply } from '../core/replies.ts';
import { type ScoreDependencies, score } from '../core/score.ts';
import { createBatchingWatch } from '../core/verify.ts';
import { openRepository } from '../onnx/repository.ts';
import type { ScoringConfig } from './config.ts';
import { goFirstWhenMemoryEnds } from './endProcess.ts';
import { ASKING_TO_END, type FromChild, type Opening, type Work, type Written } from './quarantine.ts';

// The host ends this process, once it has done its work.
for (const signal of ASKING_TO_END) process.on(signal, () => {});
endWithParent(Number(process.argv[2]));
goFirstWhenMemoryEnds();
process.once('message', async (opening: Opening) => {
  try {
    const deps = await open(opening);
    process.on('message', (message: Work | Written) => {
      if ('written' in message) unwritten.get(message.written)?.();
      else void doWork(message, opening.model, deps);
    });
    tell({ refusal: undefined });
  } catch (error) {
    tell({ refusal: messageOf(error) });
  }
});

function tell(message: FromChild): void {
  process.send?.(message);
}

/** What waits for the host to have written replies, by their number. */
const unwritten = new Map<number, () => void>();
let sent = 0;

/** Waits until the host has written them: it need not hold more than that of a few runs. */
async function write(replies: readonly Reply[]): Promise<void> {
  const number = sent++;
  const { promise, resolve } = Promise.withResolvers<void>();
  unwritten.set(number, resolve);
  tell({ replies, number });
  await promise;
  unwritten.delete(number);
}

async function open({ config, directory, defaults, model = defaults?.model }: Opening): Promise<ScoreDependencies> {
  const own = { preload: false, first: model, isShortLived: true, warn: (): void => {} };
  const repository = await openRepository({ ...config, directory, ...own });
  return {
    models: defaults === undefined ? repository : withDefaults(repository, defaults),
    payloads: await openPayloads(config),
    plan,
    limits: config,
    latency: createLatencyEstimator(),
    memory: createMemoryCeiling(),
    batching: createBatchingWatch(config.checkPercent / 100),
    observer: OBSERVER,
    now: () => performance.now(),
  };
}

/** The AWS SDK takes longer to load than many a model: it is loaded where there is a bucket. */
async function openPayloads(config: ScoringConfig): Promise<ScoreDependencies['payloads']> {
  const { payloadBucket: bucket, payloadPrefix: prefix, maxPayloadBytes: maxBytes } = config;
  if (bucket === undefined) return undefined;
  const { createS3Client } = await import('../aws/awsClients.ts');
  const { HOST_PATIENCE } = await import('../aws/sqsWire.ts');
  const { createPayloads } = await import('../aws/payloads.ts');
  return createPayloads({ s3: createS3Client(HOST_PATIENCE), bucket, prefix, maxBytes });
}

/** The host has said and counted what it knows of the model; of what happens here it is told what it needs. */
const OBSERVER: Observer = {
  ...SILENT,
  batchMismatch: (mismatch) => tell({ mismatch }),
  runAbandoned: (_, ranMs) => tell({ ranMs }),
};

async function doWork({ bodies, remainingMs, maxRows }: Work, name: string | undefined, deps: ScoreDependencies) {
  const endsAt = performance.now() + remainingMs;
  const signal = timeoutSignal(remainingMs);
  const model = await deps.models.find(name, undefined);
  if (!isFailure(model) && maxRows < model.maxBatchRows) deps.batching.stop(model, maxRows);
  const time = { remainingMs: () => endsAt - performance.now(), signal, isShared: true };
  await score(bodies, deps, time, write);
  tell({ isDone: true });
}

/** @param pid of the parent. A thread looks for it, because what hangs the main thread would outlive its host */
function endWithParent(pid: number): void {
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  const look = `setInterval(() => process.ppid === ${pid} || process.kill(process.pid, 'SIGKILL'), 200)`;
  new Worker(look, { eval: true }).unref();
}
