import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { hasCode, messageOf } from '../core/failure.ts';
import { isObject } from '../core/json.ts';
import type { GpuReading } from '../core/observer.ts';

export interface NvidiaDevices {
  /** The driver's version, such as `580.95.05`. */
  readonly driver: string;
  /** The name of each device that this process may use, such as `NVIDIA L4`, in the order of their numbers. */
  readonly names: readonly string[];
}

/**
 * The devices of this machine, as the driver or else `nvidia-smi` tells; undefined where neither does.
 *
 * @param driver the folder in which the driver tells of itself
 * @param environment whose `PATH` has `nvidia-smi`
 * @see https://download.nvidia.com/XFree86/Linux-x86_64/580.95.05/README/procinterface.html
 */
export async function readNvidiaDevices(
  driver = '/proc/driver/nvidia',
  environment: NodeJS.ProcessEnv = process.env,
): Promise<NvidiaDevices | undefined> {
  try {
    return await readDriver(driver);
  } catch {
    return askForDevices(environment).catch(() => undefined);
  }
}

async function readDriver(folder: string): Promise<NvidiaDevices> {
  const [, driver] = /(\d+(?:\.\d+)+)/.exec(await readFile(join(folder, 'version'), 'utf8')) ?? [];
  if (driver === undefined) throw new Error(`${folder}: expected a version of the driver, got none`);
  const devices = join(folder, 'gpus');
  // Folders are named for the devices' places on the bus, the order in which CUDA counts devices of one kind.
  const places = (await readdir(devices)).toSorted();
  const texts = await Promise.all(places.map((place) => readFile(join(devices, place, 'information'), 'utf8')));
  return { driver, names: texts.map((text) => /^Model:\s*(.+?)\s*$/m.exec(text)?.[1] ?? 'a device without a name') };
}

async function askForDevices(environment: NodeJS.ProcessEnv): Promise<NvidiaDevices> {
  const devices = (await askNvidiaSmi('driver_version,name', environment)).map((line) => line.split(', '));
  return { driver: devices[0]?.[0] ?? '', names: devices.map(([, name = '']) => name) };
}

const FIELDS = 'utilization.gpu,memory.used,memory.total';
const LINE = /^(\d+|\[.+?\]), (\d+|\[.+?\]), (\d+|\[.+?\])$/;

/** A driver that waits for a device may never answer. */
const ANSWER_MS = 10_000;

const run = promisify(execFile);

/**
 * Asks the driver what each device does, by the command that comes with it: Node cannot call its library.
 *
 * @param environment whose `PATH` has the command
 * @throws Error when there is no such command, or it fails, says something else, or nothing in time
 * @see https://docs.nvidia.com/deploy/nvidia-smi/index.html
 */
export async function readGpus(environment = process.env, answerMs = ANSWER_MS): Promise<GpuReading[]> {
  const lines = await askNvidiaSmi(FIELDS, environment, answerMs);
  return lines.map((line) => {
    const [, used, memoryUsed, memory] = LINE.exec(line) ?? [];
    if (memory === undefined) {
      const got = JSON.stringify(line.slice(0, 80));
      throw new Error(`nvidia-smi: expected ${FIELDS.replaceAll(',', ', ')} of each device, got ${got}`);
    }
    return { usedPercent: told(used), memoryUsedMib: told(memoryUsed), memoryMib: told(memory) };
  });
}

/** @returns a line for each device, its fields with `, ` between them, without units */
async function askNvidiaSmi(fields: string, env: NodeJS.ProcessEnv, timeout = ANSWER_MS): Promise<string[]> {
  const options = [`--query-gpu=${fields}`, '--format=csv,noheader,nounits'];
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
