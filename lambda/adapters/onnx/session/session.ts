import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { ModelUnavailableError } from '../../../core/contract/model.ts';
import type { TensorData } from '../../../core/tensor/datatype.ts';

/** What a worker thread needs to open its session. */
export interface SessionSpec {
  /** The model file. */
  readonly path: string;
  readonly providers: readonly string[];
  readonly sessionOptions: Readonly<Record<string, unknown>>;
}

/** One input or output as ONNX Runtime describes it. What is not a tensor (a sequence, a map) has a name only. */
export interface ValueDescription {
  readonly name: string;
  readonly onnxType?: string;
  readonly shape?: readonly (number | string)[];
}

export interface SessionMetadata {
  readonly inputs: readonly ValueDescription[];
  readonly outputs: readonly ValueDescription[];
}

export interface RunTask {
  readonly inputs: readonly {
    readonly name: string;
    readonly onnxType: string;
    readonly shape: readonly number[];
    readonly data: TensorData;
  }[];
}

/** Outputs in the session's order; float16 as its bits, in a Uint16Array. */
export interface RunReply {
  readonly outputs: readonly { readonly shape: readonly number[]; readonly data: TensorData }[];
  readonly runMs: number;
  /** The memory of the inputs, given back. */
  readonly inputs: readonly ArrayBuffer[];
}

/** The reply of a thread that cannot open its session again, and why. */
export interface Unavailable {
  readonly unavailable: string;
}

/** One ONNX Runtime session in a worker thread of its own. */
export interface Session {
  readonly metadata: SessionMetadata;
  run(task: RunTask): Promise<RunReply>;
  /** To be called after the warm-up: from then on short runs are not shared among the cores. */
  warmedUp(): Promise<void>;
  close(): Promise<void>;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const WORKER_FILE = fileURLToPath(new URL(`./sessionWorker.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));

/** The longest a Lambda function may run. */
const LONGEST_RUN_MS = 900_000;

/**
 * Starts a thread, opens the session in it and reads its metadata.
 *
 * @throws Error when a provider is not known or the model cannot be loaded
 */
export async function openSession(spec: SessionSpec): Promise<Session> {
  const pool = new Piscina<unknown, unknown>({
    filename: WORKER_FILE,
    minThreads: 1,
    maxThreads: 1,
    workerData: spec,
    // A thread that is ended inside native code takes the process with it: let every run finish.
    closeTimeout: LONGEST_RUN_MS,
  });
  // A thread that dies idle is replaced, and the next run opens its session again: nothing to tell anyone.
  pool.on('error', () => {});
  try {
    await refuseUnknownProviders(pool, spec);
    const metadata = (await pool.run(undefined, { name: 'describe' })) as SessionMetadata;
    return {
      metadata,
      run: (task) => runIn(pool, task),
      warmedUp: async () => void (await pool.run(undefined, { name: 'warmedUp' })),
      close: () => pool.close(),
    };
  } catch (error) {
    await pool.destroy();
    throw error;
  }
}

/** The configuration names a provider that ONNX Runtime has never heard of. */
export class UnknownProviderError extends Error {
  override readonly name = 'UnknownProviderError';
}

/** ONNX Runtime passes over a provider that it does not know without an error. */
async function refuseUnknownProviders(pool: Piscina<unknown, unknown>, spec: SessionSpec): Promise<void> {
  const known = (await pool.run(undefined, { name: 'listProviders' })) as string[];
  const unknown = spec.providers.filter((provider) => !known.includes(provider));
  if (unknown.length > 0) {
    throw new UnknownProviderError(`expected execution providers among ${known.join(', ')}, got ${unknown.join(', ')}`);
  }
}

async function runIn(pool: Piscina<unknown, unknown>, task: RunTask): Promise<RunReply> {
  const transferList = task.inputs.flatMap(({ data }) => (Array.isArray(data) ? [] : [data.buffer as ArrayBuffer]));
  const threadBefore = pool.threads[0];
  let reply: RunReply | Unavailable;
  try {
    reply = (await pool.run(task, { name: 'run', transferList })) as RunReply | Unavailable;
  } catch (error) {
    if (pool.threads[0] === threadBefore) throw error;
    throw new ModelUnavailableError('the thread that runs the model died; it is started again', { cause: error });
  }
  if ('unavailable' in reply) throw new ModelUnavailableError(`the model cannot be opened: ${reply.unavailable}`);
  return reply;
}
