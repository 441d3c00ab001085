/**
 * Worker thread of one ONNX Runtime session. The binding for Node is synchronous and blocks its thread. No other file
 * imports the runtime.
 */
import module from 'node:module';
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
import { withTensorsForMaps } from './zipMaps.ts';

// The native binding cannot read a Float16Array. Without that class ONNX Runtime represents FP16 as Uint16Array.
const FLOAT16_ARRAY: typeof Float16Array | undefined = globalThis.Float16Array;
Reflect.deleteProperty(globalThis, 'Float16Array');

// Node writes its compile cache when a thread ends, but the scorer is killed.
module.flushCompileCache?.();

const FATAL = 4;
// ONNX Runtime also throws an error if a provider cannot be loaded.
env.logLevel = 'fatal';

const { ordersSent, parent } = workerData as ThreadData;
const port = parentPort as MessagePort;
let session: InferenceSession | undefined;

/** Executes orders as they come and sleeps in between. Waking up is much faster than receiving an event. */
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

/** Interval at which an idle thread checks the parent, because the main thread may hang. */
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
  // The overloads take a path or bytes, not either.
  return InferenceSession.create((withTensorsForMaps(path) ?? path) as string, {
    // Failures are thrown. ONNX Runtime's own log would contain values of the request.
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
  if (session === undefined) throw new Error('expected an open session, got none');
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

/** Returns the memory to transfer. An output that equals an input shares its memory. */
function memoryOfReply({ outputs, inputs }: RunReply): ArrayBuffer[] {
  return [...new Set([...memoryOf(outputs), ...inputs])];
}

// ONNX Runtime initializes with its first session, which takes long. Do it while the host still loads.
await InferenceSession.create(new Uint8Array()).catch(() => {});
await followOrders();
