import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { messageOf } from '../core/failure.ts';
import { isObject } from '../core/json.ts';
import { hasCode } from './hasCode.ts';

/** What a card does at the moment. What it does not tell is undefined, as the use of one that is cut into parts (MIG). */
export interface GpuReading {
  /** Percent of the last sixth of a second to second in which it computed. */
  readonly usedPercent: number | undefined;
  readonly memoryUsedMib: number | undefined;
  readonly memoryMib: number | undefined;
}

const FIELDS = ['utilization.gpu', 'memory.used', 'memory.total'];
const LINE = /^(\d+|\[.+?\]), (\d+|\[.+?\]), (\d+|\[.+?\])$/;

/** A driver that waits for a card may never answer. */
const ANSWER_MS = 10_000;

const run = promisify(execFile);

/**
 * Asks the driver what each card does, by the command that comes with it: Node cannot call its library.
 *
 * @param environment whose `PATH` has the command
 * @param answerMs most milliseconds to wait
 * @throws Error when there is no such command, or it fails, says something else, or nothing in time
 * @see https://docs.nvidia.com/deploy/nvidia-smi/index.html
 */
export async function readGpus(
  environment: NodeJS.ProcessEnv = process.env,
  answerMs = ANSWER_MS,
): Promise<GpuReading[]> {
  const lines = await askNvidiaSmi(FIELDS, environment, answerMs);
  return lines.map((line) => {
    const [, used, memoryUsed, memory] = LINE.exec(line) ?? [];
    if (memory === undefined) {
      throw new Error(
        `nvidia-smi: expected ${FIELDS.join(', ')} of each card, got ${JSON.stringify(line.slice(0, 80))}`,
      );
    }
    return { usedPercent: told(used), memoryUsedMib: told(memoryUsed), memoryMib: told(memory) };
  });
}

/**
 * @param fields as the command calls them
 * @returns a line for each card, its fields with `, ` between them, without units
 */
export async function askNvidiaSmi(
  fields: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
  timeout = ANSWER_MS,
): Promise<string[]> {
  const options = [`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits'];
  try {
    const { stdout } = await run('nvidia-smi', options, { env, timeout, killSignal: 'SIGKILL' });
    return stdout.trim().split('\n');
  } catch (cause) {
    if (hasCode(cause, 'ENOENT')) {
      const whatToDo = 'have the host of the container share it, by NVIDIA_DRIVER_CAPABILITIES=compute,utility';
      throw new Error(`nvidia-smi: expected the command on PATH, got none; ${whatToDo}`, { cause });
    }
    const { killed = false, stdout = '' } = isObject(cause) ? cause : {};
    const got = killed === true ? `none in ${timeout / 1000} s` : String(stdout).trim() || messageOf(cause);
    throw new Error(`nvidia-smi: expected an answer, got ${got.slice(0, 500)}`, { cause });
  }
}

/** What is in brackets says why there is no number. */
function told(field: string | undefined): number | undefined {
  return field === undefined || field.startsWith('[') ? undefined : Number(field);
}
