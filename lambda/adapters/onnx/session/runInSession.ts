import { messageOf } from '../../../core/contract/failure.ts';
import { OutOfMemoryError, type RunResult, type TensorSpec } from '../../../core/contract/model.ts';
import { DATATYPES } from '../../../core/tensor/datatype.ts';
import type { Tensor } from '../../../core/tensor/tensor.ts';
import type { BufferPool } from './bufferPool.ts';
import { memoryOf, type RunReply, type RunTask } from './jobs.ts';
import type { Session } from './session.ts';

/**
 * Runs tensors in a session, and gives the memory of its inputs back to the pool they came from.
 *
 * @param outputs the model's outputs, in its order
 * @throws OutOfMemoryError when an allocation failed; anything else is the run's own failure
 */
export async function runInSession(
  session: Session,
  outputs: readonly TensorSpec[],
  inputs: readonly Tensor[],
  pool: BufferPool,
  signal?: AbortSignal,
): Promise<RunResult> {
  const reply = await orOutOfMemory(session.run({ inputs: inputs.map(toTaskInput) }, signal));
  pool.giveBack(memoryNoOutputHolds(reply));
  if (reply.outputs.length !== outputs.length) {
    throw new Error(`expected ${outputs.length} outputs from ONNX Runtime, got ${reply.outputs.length}`);
  }
  return {
    outputs: reply.outputs.map((output, index) => toTensor(outputs[index] as TensorSpec, output)),
    runMs: reply.runMs,
  };
}

function toTaskInput({ name, datatype, shape, data }: Tensor): RunTask['inputs'][number] {
  return { name, onnxType: DATATYPES[datatype].onnxType, shape, data };
}

/** What ONNX Runtime, its arenas and CUDA say when an allocation fails. */
const OUT_OF_MEMORY =
  /bad_alloc|out of memory|failed to allocate memory|available memory of \d+ is smaller than requested|_ALLOC_FAILED/i;

async function orOutOfMemory(running: Promise<RunReply>): Promise<RunReply> {
  try {
    return await running;
  } catch (error) {
    if (!OUT_OF_MEMORY.test(messageOf(error))) throw error;
    throw new OutOfMemoryError(`the run needed more memory than there is: ${messageOf(error)}`, { cause: error });
  }
}

/** An output that is an input as it is shares its memory. */
function memoryNoOutputHolds({ inputs, outputs }: RunReply): ArrayBuffer[] {
  const held = new Set(memoryOf(outputs));
  return inputs.filter((buffer) => !held.has(buffer));
}

function toTensor({ name, datatype }: TensorSpec, { shape, data }: RunReply['outputs'][number]): Tensor {
  const isBits = datatype === 'FP16' && data instanceof Uint16Array;
  const elements = isBits ? new Float16Array(data.buffer, data.byteOffset, data.length) : data;
  return { name, datatype, shape, data: elements };
}
