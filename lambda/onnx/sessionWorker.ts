/**
 * The worker thread that owns one ONNX Runtime session. ONNX Runtime's Node binding runs synchronously, so it
 * gets a thread of its own. No other file imports the runtime.
 */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { InferenceSession, listSupportedBackends, Tensor } from 'onnxruntime-node';
import { messageOf } from '../core/failure.ts';

import {
  BEGUN,
  type JobMessage,
  type JobReply,
  memoryOf,
  type RunReply,
  type RunTask,
  type SessionMetadata,
  type SessionSpec,
  type TaskInput,
  type ThreadData,
  WAITING,
  type Waiting,
  type WaitingChoice,
  WITHDRAWN,
} from './sessionJobs.ts';
import { fasterWaiting, sessionSettings, WAITING_SETTINGS } from './waiting.ts';

// The native binding cannot read a Float16Array. In a thread without that class ONNX Runtime carries float16 as its
// bits, in a Uint16Array.
const FLOAT16_ARRAY: typeof Float16Array | undefined = globalThis.Float16Array;
Reflect.deleteProperty(globalThis, 'Float16Array');

const FATAL = 4;

/** About what it takes to encode an answer and to decode the next request. */
const WORK_BETWEEN_RUNS_MS = 0.3;
/** Threads that spun are asleep by then. */
const REST_MS = 3;
const NOTHING = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

const { jobsSent } = workerData as ThreadData;
const port = parentPort as MessagePort;
let session: InferenceSession | undefined;

/** Does jobs as they come, and sleeps in between: to be woken takes far less than an event takes to arrive. */
async function doJobs(): Promise<void> {
  for (let seen = 0; ; seen = Atomics.load(jobsSent, 0)) {
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
      const { job, argument, stage }: JobMessage = next.message;
      if (stage !== undefined && Atomics.compareExchange(stage, 0, WAITING, BEGUN) === WITHDRAWN) continue;
      if (job === 'close') return session?.release();
      await answer(job, argument);
    }
    Atomics.wait(jobsSent, 0, seen);
  }
}

const JOBS = { listProviders, open, run, chooseWaiting };

async function answer(job: keyof typeof JOBS, argument: unknown): Promise<void> {
  try {
    const given = await JOBS[job](argument as never);
    port.postMessage({ given } satisfies JobReply, job === 'run' ? memoryOfReply(given as RunReply) : []);
  } catch (error) {
    port.postMessage({ error: messageOf(error) } satisfies JobReply);
  }
}

function listProviders(): string[] {
  return listSupportedBackends().map((backend) => backend.name);
}

async function open(spec: SessionSpec): Promise<SessionMetadata> {
  const before = session;
  session = await create(spec);
  await before?.release();
  const { inputMetadata, outputMetadata } = session;
  return { inputs: inputMetadata.map(describeValue), outputs: outputMetadata.map(describeValue) };
}

function describeValue(value: InferenceSession.ValueMetadata): SessionMetadata['inputs'][number] {
  return value.isTensor ? { name: value.name, onnxType: value.type, shape: [...value.shape] } : { name: value.name };
}

function create({ path, providers, sessionOptions, waiting = 'asleep' }: SessionSpec): Promise<InferenceSession> {
  return InferenceSession.create(path, {
    // What fails is thrown. Printed by ONNX Runtime it would hold values of the request.
    logSeverityLevel: FATAL,
    ...sessionOptions,
    extra: sessionSettings(sessionOptions.extra, WAITING_SETTINGS[waiting]),
    executionProviders: providers.map((provider) => provider as InferenceSession.ExecutionProviderConfig),
  });
}

async function run({
  inputs,
  constants = [],
  outputs: names = session?.outputNames ?? [],
}: RunTask): Promise<RunReply> {
  if (session === undefined) throw new Error('expected a session to be opened before it is run, got none');
  const feeds = feedsOf({ inputs, constants });
  const startedAt = performance.now();
  const results = await session.run(feeds, names);
  const runMs = performance.now() - startedAt;
  const outputs = names.map((name) => {
    const tensor = results[name] as Tensor;
    return { shape: tensor.dims, data: tensor.data as Float32Array | string[] };
  });
  return { outputs, runMs, inputs: memoryOf(inputs) };
}

function feedsOf({ inputs, constants = [] }: RunTask): Record<string, Tensor> {
  return Object.fromEntries([...inputs, ...constants].map((input) => [input.name, toTensor(input)]));
}

function toTensor({ onnxType, shape, data }: TaskInput): Tensor {
  const isFloat16 = FLOAT16_ARRAY !== undefined && data instanceof FLOAT16_ARRAY;
  const bits = isFloat16 ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;
  return new Tensor(onnxType as 'float32', bits as Float32Array, shape);
}

/** Given away instead of copied. An output that is an input as it is shares its memory. */
function memoryOfReply({ outputs, inputs }: RunReply): ArrayBuffer[] {
  return [...new Set([...memoryOf(outputs), ...inputs])];
}

async function chooseWaiting({ spec, task, limitMs }: WaitingChoice): Promise<Waiting> {
  if (session === undefined) throw new Error('expected a session to be opened before its threads wait, got none');
  const sessions = { asleep: session, spinning: await create({ ...spec, waiting: 'spinning' }) };
  const feeds = feedsOf(task);
  const fetched = task.outputs ?? session.outputNames;
  const timeMs = async (waiting: Waiting): Promise<number> => {
    const startedAt = performance.now();
    while (performance.now() - startedAt < WORK_BETWEEN_RUNS_MS);
    await sessions[waiting].run(feeds, fetched);
    return performance.now() - startedAt;
  };
  const rest = (): void => void Atomics.wait(NOTHING, 0, 0, REST_MS);
  let faster: Waiting = 'asleep';
  try {
    faster = await fasterWaiting({ timeMs, rest, now: () => performance.now() }, limitMs);
    session = sessions[faster];
  } finally {
    await sessions[faster === 'asleep' ? 'spinning' : 'asleep'].release();
  }
  return faster;
}

await doJobs();
