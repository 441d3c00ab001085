/**
 * A Lambda execution environment in small: imports the entry, and invokes it with every event that its parent sends. Started by
 * `hosts.ts`; with `--in-thread` the entry runs in a worker thread that the process outlives, as on Managed Instances.
 */
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';

export interface Invoking {
  readonly event: SQSEvent;
  readonly timeoutMs: number;
  /** X-Ray's tracing header, which the runtime sets for each invocation. */
  readonly traceHeader?: string | undefined;
}

if (isMainThread && process.argv.includes('--in-thread')) {
  const worker = new Worker(new URL(import.meta.url));
  worker.on('message', (message) => process.send?.(message));
  worker.on('exit', (code) => console.error(`the thread ended alone, with code ${code}`));
  process.on('message', (message) => worker.postMessage(message));
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
} else {
  const { handler } = await import('../../lambda/handler.ts');
  (parentPort ?? process).on('message', async ({ event, timeoutMs, traceHeader }: Invoking) => {
    if (traceHeader === undefined) delete process.env._X_AMZN_TRACE_ID;
    else process.env._X_AMZN_TRACE_ID = traceHeader;
    tellParent(await handler(event, createLambdaContext(Date.now() + timeoutMs)));
  });
  process.on('disconnect', () => process.exit());
  tellParent('ready');
}

function tellParent(message: SQSBatchResponse | 'ready'): void {
  if (parentPort === null) process.send?.(message);
  else parentPort.postMessage(message);
}
