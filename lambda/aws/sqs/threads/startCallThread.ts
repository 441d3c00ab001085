import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type Deferred, deferred } from '../../../core/concurrency.ts';
import { messageOf } from '../../../core/failure.ts';
import type { SqsCallerSpec } from '../caller.ts';
import { type CallMessage, type CallReply, type Operation, READY, toError } from './calls.ts';

/** A thread that makes calls of SQS. */
export interface CallThread {
  /** @throws what the call throws, or that the thread has ended: SQS may have done what it was asked by then */
  call(operation: Operation, input: object): Promise<object>;
  /** Like `performance.eventLoopUtilization` of this thread. */
  readonly eventLoopUtilization: Worker['performance']['eventLoopUtilization'];
  /** Resolves when it can make calls; never, if it ends before that. */
  readonly ready: Promise<void>;
  /** Resolves when it has ended, with the reason. */
  readonly ended: Promise<Error>;
  /** Ends the thread; calls under way are rejected. */
  close(): Promise<void>;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const THREAD_FILE = fileURLToPath(new URL(`./callThread.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));

export function startCallThread(workerData: SqsCallerSpec): CallThread {
  // It prints nothing. Streams that are joined to this process's own would make Node warn of the eleventh thread.
  const thread = new Worker(THREAD_FILE, { workerData, stdout: true, stderr: true });
  const underWay = new Map<number, Deferred<object>>();
  const [ready, ended] = [deferred(), deferred<Error>()];
  let failed: unknown;
  let endedBy: Error | undefined;
  let calls = 0;

  thread.on('message', (reply: CallReply) => {
    if (reply === READY) return ready.resolve();
    const call = underWay.get(reply.id);
    underWay.delete(reply.id);
    if ('output' in reply) call?.resolve(reply.output);
    else call?.reject(toError(reply.error));
  });
  // What it threw outside of any call; it ends next.
  thread.on('error', (error) => {
    failed = error;
  });
  thread.on('exit', (code) => {
    const reason = failed === undefined ? `with code ${code}` : `by an error: ${messageOf(failed)}`;
    endedBy = new Error(`a thread that calls SQS ended ${reason}`, { cause: failed });
    for (const call of underWay.values()) call.reject(endedBy);
    ended.resolve(endedBy);
  });
  // Whoever waits for a call has more to wait for than this thread.
  thread.unref();

  return {
    async call(operation, input) {
      if (endedBy !== undefined) throw endedBy;
      const id = calls++;
      const answered = deferred<object>();
      underWay.set(id, answered);
      thread.postMessage({ id, operation, input } satisfies CallMessage);
      return answered.promise;
    },
    eventLoopUtilization: thread.performance.eventLoopUtilization,
    ready: ready.promise,
    ended: ended.promise,
    close: async () => void (await thread.terminate()),
  };
}
