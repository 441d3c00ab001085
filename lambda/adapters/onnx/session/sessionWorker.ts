/**
 * The worker thread that owns one ONNX Runtime session. ONNX Runtime's Node binding runs synchronously, so it
 * gets a thread of its own. No other file imports the runtime.
 */
import { InferenceSession, listSupportedBackends, Tensor } from 'onnxruntime-node';
import { move, transferableSymbol, valueSymbol, workerData } from 'piscina';
import type { RunReply, RunTask, SessionMetadata, SessionSpec, Unavailable } from './session.ts';

// The native binding cannot read a Float16Array. In a thread without that class ONNX Runtime carries float16 as its
// bits, in a Uint16Array.
const FLOAT16_ARRAY: typeof Float16Array | undefined = globalThis.Float16Array;
Reflect.deleteProperty(globalThis, 'Float16Array');

const FATAL = 4;

/** Threads that spin until the next run would take the cores that decode and encode in the meantime. */
const NO_SPINNING_BETWEEN_RUNS = { session: { force_spinning_stop: '1' } };

const spec: SessionSpec = workerData;
let opening: Promise<InferenceSession> | undefined;
let threads: { intraOpNumThreads?: number } = {};

/** Opens the session on first use, so that a thread started in place of a dead one has it too. */
function session(): Promise<InferenceSession> {
  opening ??= InferenceSession.create(spec.path, {
    // What fails is thrown. Printed by ONNX Runtime it would hold values of the request.
    logSeverityLevel: FATAL,
    extra: NO_SPINNING_BETWEEN_RUNS,
    ...threads,
    ...spec.sessionOptions,
    executionProviders: [...spec.providers],
  });
  return opening;
}

export function listProviders(): string[] {
  return listSupportedBackends().map((backend) => backend.name);
}

export async function describe(): Promise<SessionMetadata> {
  const { inputMetadata, outputMetadata } = await session();
  return { inputs: inputMetadata.map(describeValue), outputs: outputMetadata.map(describeValue) };
}

function describeValue(value: InferenceSession.ValueMetadata): SessionMetadata['inputs'][number] {
  return value.isTensor ? { name: value.name, onnxType: value.type, shape: [...value.shape] } : { name: value.name };
}

/**
 * A model that runs one or two rows in less takes a millisecond or two for hundreds. Sharing such runs among the cores
 * gains less than its threads take from decoding and encoding, and every operator waits for all of them.
 */
const SHORT_RUN_MS = 0.1;
let fastestMs = Number.POSITIVE_INFINITY;

/** After the warm-up: opens the session again, for runs on this thread alone, when runs are short. */
export async function warmedUp(): Promise<void> {
  if (fastestMs >= SHORT_RUN_MS) return;
  const before = await session();
  threads = { intraOpNumThreads: 1 };
  opening = undefined;
  await session();
  await before.release();
}

export async function run({ inputs }: RunTask): Promise<RunReply | Unavailable> {
  let running: InferenceSession;
  try {
    running = await session();
  } catch (error) {
    opening = undefined;
    return { unavailable: error instanceof Error ? error.message : String(error) };
  }
  const feeds = Object.fromEntries(inputs.map((input) => [input.name, toTensor(input)]));
  const startedAt = performance.now();
  const results = await running.run(feeds);
  const runMs = performance.now() - startedAt;
  fastestMs = Math.min(fastestMs, runMs);
  const outputs = running.outputNames.map((name) => {
    const tensor = results[name] as Tensor;
    return { shape: tensor.dims, data: tensor.data as Float32Array | string[] };
  });
  const memory = inputs.flatMap(({ data }) => (Array.isArray(data) ? [] : [data.buffer as ArrayBuffer]));
  return movedOut({ outputs, runMs, inputs: memory });
}

function toTensor({ onnxType, shape, data }: RunTask['inputs'][number]): Tensor {
  const isFloat16 = FLOAT16_ARRAY !== undefined && data instanceof FLOAT16_ARRAY;
  const bits = isFloat16 ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;
  return new Tensor(onnxType as 'float32', bits as Float32Array, shape);
}

/** Gives memory away instead of copying it. An output that is an input as it is shares its memory. */
function movedOut(reply: RunReply): RunReply {
  const outputs = reply.outputs.flatMap(({ data }) => (Array.isArray(data) ? [] : [data.buffer as ArrayBuffer]));
  const movable = { [transferableSymbol]: [...new Set([...outputs, ...reply.inputs])], [valueSymbol]: reply };
  return move(movable as never) as never;
}
