/**
 * A Lambda execution environment in small: imports the entry, `lambda/handler.ts` unless its argument names another, and
 * invokes it with every event that its parent sends. Started by `processes.ts`; with `--in-thread` the entry runs in a worker thread that the process outlives, as on Managed Instances.
 */
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import type { Context } from 'aws-lambda';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';

export interface Invoking {
  readonly event: unknown;
  readonly timeoutMs: number;
  /** X-Ray's tracing header, which the runtime sets for each invocation. */
  readonly traceHeader?: string | undefined;
}

/** What the handler has answered, or thrown. */
export type Invoked = { readonly response: unknown } | { readonly errorType: string; readonly errorMessage: string };

interface Entry {
  handler(event: unknown, context: Context): Promise<unknown>;
}

if (isMainThread && process.argv.includes('--in-thread')) {
  const worker = new Worker(new URL(import.meta.url));
  worker.on('message', (message) => process.send?.(message));
  worker.on('exit', (code) => console.error(`the thread ended alone, with code ${code}`));
  process.on('message', (message) => worker.postMessage(message));
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
} else {
  const entry = process.argv[2] ?? 'handler';
  const { handler }: Entry = await import(`../../lambda/${entry}.ts`);
  (parentPort ?? process).on('message', async ({ event, timeoutMs, traceHeader }: Invoking) => {
    if (traceHeader === undefined) delete process.env._X_AMZN_TRACE_ID;
    else process.env._X_AMZN_TRACE_ID = traceHeader;
    const context = createLambdaContext(Date.now() + timeoutMs);
    const answer = handler(event, context).then((response) => ({ response }));
    tellParent(await answer.catch(({ name, message }) => ({ errorType: name, errorMessage: message })));
  });
  process.on('disconnect', () => process.exit());
  tellParent('ready');
}

function tellParent(message: Invoked | 'ready'): void {
  if (parentPort === null) process.send?.(message);
  else parentPort.postMessage(message);
}
