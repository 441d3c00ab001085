/**
 * The worker thread that owns one ONNX Runtime session. ONNX Runtime's Node binding runs synchronously, so it
 * gets a thread of its own. No other file imports the runtime.
 */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { env, InferenceSession, listSupportedBackends, Tensor } from 'onnxruntime-node';
import { messageOf } from '../core/failure.ts';
import {
  memoryOf,
  type OrderMessage,
  type OrderReply,
  type RunReply,
  type RunTask,
  type SessionMetadata,
  type SessionSpec,
  sessionSettings,
  type TaskInput,
  type ThreadData,
} from './sessionOrders.ts';

// The native binding cannot read a Float16Array. In a thread without that class ONNX Runtime carries float16 as its
// bits, in a Uint16Array.
const FLOAT16_ARRAY: typeof Float16Array | undefined = globalThis.Float16Array;
Reflect.deleteProperty(globalThis, 'Float16Array');

const FATAL = 4;
// A provider that cannot be loaded is thrown as well.
env.logLevel = 'fatal';

const { ordersSent, parent } = workerData as ThreadData;
const port = parentPort as MessagePort;
let session: InferenceSession | undefined;

/** Follows orders as they come, and sleeps in between: to be woken takes far less than an event takes to arrive. */
async function followOrders(): Promise<void> {
  for (let seen = 0; ; seen = Atomics.load(ordersSent, 0)) {
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
      const { order, argument }: OrderMessage = next.message;
      if (order === 'close') return session?.release();
      await answer(order, argument);
    }
    while (Atomics.wait(ordersSent, 0, seen, PARENT_LOOK_MS) === 'timed-out') endWithParent();
  }
}

/** How often an idle thread looks for the parent. A main thread that hangs does not see it end. */
const PARENT_LOOK_MS = 1_000;

function endWithParent(): void {
  if (parent !== undefined && process.ppid !== parent) process.kill(process.pid, 'SIGKILL');
}

const ORDERS = { listProviders, open, run };

async function answer(order: keyof typeof ORDERS, argument: unknown): Promise<void> {
  try {
    const given = await ORDERS[order](argument as never);
    port.postMessage({ given } satisfies OrderReply, order === 'run' ? memoryOfReply(given as RunReply) : []);
  } catch (error) {
    port.postMessage({ error: messageOf(error) } satisfies OrderReply);
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

function create({ path, providers, sessionOptions }: SessionSpec): Promise<InferenceSession> {
  return InferenceSession.create(path, {
    // What fails is thrown. Printed by ONNX Runtime it would hold values of the request.
    logSeverityLevel: FATAL,
    ...sessionOptions,
    extra: sessionSettings(sessionOptions.extra),
    executionProviders: providers.map((provider) => provider as InferenceSession.ExecutionProviderConfig),
  });
}

async function run({
  inputs,
  constants = [],
  outputs: names = session?.outputNames ?? [],
}: RunTask): Promise<RunReply> {
  if (session === undefined) throw new Error('expected a session to be opened before it is run, got none');
  const feeds = Object.fromEntries([...inputs, ...constants].map((input) => [input.name, toTensor(input)]));
  const startedAt = performance.now();
  const results = await session.run(feeds, names);
  const runMs = performance.now() - startedAt;
  const outputs = names.map((name) => {
    const tensor = results[name] as Tensor;
    return { shape: tensor.dims, data: tensor.data as Float32Array | string[] };
  });
  return { outputs, runMs, inputs: memoryOf(inputs) };
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

// ONNX Runtime sets itself up with its first session, which takes longer than most models: here while its host still
// loads.
await InferenceSession.create(new Uint8Array()).catch(() => {});
await followOrders();
