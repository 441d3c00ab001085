import { messageOf } from '../../core/contract/failure.ts';
import { OutOfMemoryError, type RunResult, type TensorSpec } from '../../core/contract/model.ts';
import { DATATYPES, type TensorData } from '../../core/tensor/datatype.ts';
import { moveAxis } from '../../core/tensor/moveAxis.ts';
import type { Tensor } from '../../core/tensor/tensor.ts';
import { memoryOf, type RunReply, type TaskInput } from '../sessionJobs.ts';
import type { BufferPool } from './bufferPool.ts';
import type { Session } from './session.ts';

/** What a run needs to know of its model. */
export interface RunContract {
  /** Those that a run is given, in the model's order. */
  readonly inputs: readonly TensorSpec[];
  /** Those that are fetched, in that order. */
  readonly outputs: readonly TensorSpec[];
  /** The inputs that are the same in every run, as the model has them. */
  readonly constants: readonly Tensor[];
}

/**
 * Runs tensors in a session, and gives the memory of its inputs back to the pool they came from. The batch axis is where
 * the model has it in the session, and first on this side.
 *
 * @throws OutOfMemoryError when an allocation failed; anything else is the run's own failure
 */
export async function runInSession(
  session: Session,
  { inputs: specs, outputs, constants }: RunContract,
  inputs: readonly Tensor[],
  pool: BufferPool,
  signal?: AbortSignal,
  card?: number,
): Promise<RunResult> {
  const laidOut = inModelLayout(specs, inputs, pool);
  const task = {
    inputs: laidOut.map(toTaskInput),
    constants: constants.map(toTaskInput),
    outputs: outputs.map(({ name }) => name),
  };
  const reply = await orOutOfMemory(session.run(task, signal, card));
  // An output that is an input as it is shares its memory.
  pool.giveBack(memoryNotIn(reply.outputs, reply.inputs));
  if (reply.outputs.length !== outputs.length) {
    throw new Error(`expected ${outputs.length} outputs from ONNX Runtime, got ${reply.outputs.length}`);
  }
  return {
    outputs: reply.outputs.map((output, index) => toTensor(outputs[index] as TensorSpec, output)),
    runMs: reply.runMs,
    card: reply.card,
  };
}

/** Those with their batch axis elsewhere than first are copied; the memory of what was copied is free. */
function inModelLayout(specs: readonly TensorSpec[], inputs: readonly Tensor[], pool: BufferPool): readonly Tensor[] {
  if (specs.every(({ batchAxis }) => batchAxis === undefined)) return inputs;
  const laidOut = inputs.map((input, index) => moveAxis(input, 0, specs[index]?.batchAxis ?? 0, pool.allocate));
  pool.giveBack(memoryNotIn(laidOut, memoryOf(inputs)));
  return laidOut;
}

function toTaskInput({ name, datatype, shape, data }: Tensor): TaskInput {
  return { name, onnxType: DATATYPES[datatype].onnxType, shape, data };
}

/** What ONNX Runtime, its arenas and CUDA say when an allocation fails. */
const OUT_OF_MEMORY =
  /bad_alloc|out of memory|failed to allocate memory|available memory of \d+ is smaller than requested|_ALLOC_FAILED/i;

async function orOutOfMemory<T>(running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    if (!OUT_OF_MEMORY.test(messageOf(error))) throw error;
    throw new OutOfMemoryError(`the run needed more memory than there is: ${messageOf(error)}`, { cause: error });
  }
}

function memoryNotIn(arrays: readonly { readonly data: TensorData }[], memory: readonly ArrayBuffer[]): ArrayBuffer[] {
  const held = new Set(memoryOf(arrays));
  return memory.filter((buffer) => !held.has(buffer));
}

function toTensor({ name, datatype, batchAxis = 0 }: TensorSpec, { shape, data }: RunReply['outputs'][number]): Tensor {
  if (batchAxis >= shape.length && batchAxis > 0) {
    throw new Error(
      `output '${name}': expected a batch axis ${batchAxis}, got shape [${shape.join(', ')}]; fix "batchAxis" in config.json`,
    );
  }
  const isBits = datatype === 'FP16' && data instanceof Uint16Array;
  const elements = isBits ? new Float16Array(data.buffer, data.byteOffset, data.length) : data;
  return moveAxis({ name, datatype, shape, data: elements }, batchAxis, 0);
}
