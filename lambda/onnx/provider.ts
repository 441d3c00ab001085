import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { hasCode, messageOf } from '../core/failure.ts';
import { isObject } from '../core/json.ts';
import { type GpuReading, OF_NVIDIA } from '../core/observer.ts';

/** ONNX Runtime execution provider: its name, or its name and device. */
export type Provider = string | { readonly name: string; readonly deviceId?: number };

/** Providers whose device ONNX Runtime for Node passes on. It silently ignores other provider options. */
const WITH_DEVICES = ['cuda', 'tensorrt', 'dml'];

export function nameOf(provider: Provider): string {
  return typeof provider === 'string' ? provider : provider.name;
}

function isNvidia(provider: Provider): boolean {
  return OF_NVIDIA.includes(nameOf(provider));
}

/** Returns true if it can work on one of several devices. */
export function hasDevices(provider: Provider): boolean {
  return WITH_DEVICES.includes(nameOf(provider));
}

/**
 * Returns true if runs go to a GPU: new shapes are slow there, and runs of other shapes round differently. One such
 * provider is enough, because ONNX Runtime tries `cpu` last wherever it is in the list.
 */
export function runOnGpu(providers: readonly Provider[]): boolean {
  return providers.some((provider) => nameOf(provider) !== 'cpu');
}

function deviceOf(provider: Provider): number | undefined {
  if (!hasDevices(provider)) return undefined;
  return typeof provider === 'string' ? 0 : (provider.deviceId ?? 0);
}

/** Returns the same provider on another device, if it has devices. */
export function onDevice(provider: Provider, deviceId: number): Provider {
  return hasDevices(provider) ? { name: nameOf(provider), deviceId } : provider;
}

/** Formats `cuda, cpu` for messages. */
export function listProviders(providers: readonly Provider[]): string {
  return providers.map(nameOf).join(', ');
}

export interface DeviceAssignment {
  readonly provider: string;
  /** Names of its devices, as far as the machine reports them. Empty for a processor. */
  readonly devices: readonly string[];
  readonly description: string;
}

const NO_DRIVER = 'no NVIDIA driver was found: there is no /proc/driver/nvidia, and nvidia-smi does not answer';

/**
 * Describes where the runs of a model go.
 *
 * @param providers of the opened model, first choice first
 * @param devices chosen devices. @default the provider's own
 * @param readDevices returns the machine's NVIDIA devices
 */
export async function assignmentOf(
  providers: readonly Provider[],
  devices?: readonly number[],
  readDevices: typeof readNvidiaDevices = readNvidiaDevices,
): Promise<DeviceAssignment> {
  const [first = 'cpu'] = providers;
  const provider = nameOf(first);
  const own = deviceOf(first);
  if (own === undefined) return { provider, devices: [], description: provider };
  const numbers = devices ?? [own];
  const machine = isNvidia(first) ? await readDevices() : undefined;
  const names = numbers.map((number) => machine?.names[number] ?? `device ${number}`);
  const what = `${provider}, ${numbers.length === 1 ? 'device' : 'devices'} ${numbers.join(', ')}`;
  const details =
    machine === undefined ? 'no name is known' : `${[...new Set(names)].join(', ')}, driver ${machine.driver}`;
  return { provider, devices: names, description: `${what} (${details})` };
}

/** Describes the machine's devices if a provider cannot be loaded, for the error message. */
export async function describeDevices(provider: Provider): Promise<string | undefined> {
  return isNvidia(provider) ? describeNvidia(await readNvidiaDevices()) : undefined;
}

function describeNvidia(machine: NvidiaDevices | undefined): string {
  if (machine === undefined) return NO_DRIVER;
  const devices = machine.names.map((name, number) => `${number} (${name})`);
  return `the driver ${machine.driver} has ${devices.length === 0 ? 'no device' : `the devices ${devices.join(', ')}`}`;
}

export interface NvidiaDevices {
  /** Version of the driver, such as `580.95.05`. */
  readonly driver: string;
  /** Name of each device that this process may use, such as `NVIDIA L4`, by number. */
  readonly names: readonly string[];
}

/**
 * Returns the NVIDIA devices of this machine according to the driver or `nvidia-smi`, or undefined.
 *
 * @param driver folder in which the driver describes itself
 * @param environment its `PATH` has `nvidia-smi`
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
  // Folder names are places on the bus, and CUDA orders devices of one kind by them.
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

/**
 * Reads the state of each device by `nvidia-smi`, because Node cannot call the driver's library.
 *
 * @param environment its `PATH` has the command
 * @throws Error if the command does not exist, fails, times out or prints something else
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
    return {
      usedPercent: parseReading(used),
      memoryUsedMib: parseReading(memoryUsed),
      memoryMib: parseReading(memory),
    };
  });
}

/** @returns a line for each device, its fields separated by `, `, without units */
async function askNvidiaSmi(fields: string, env: NodeJS.ProcessEnv, timeout = ANSWER_MS): Promise<string[]> {
  const options = [`--query-gpu=${fields}`, '--format=csv,noheader,nounits'];
  try {
    const { stdout } = await promisify(execFile)('nvidia-smi', options, { env, timeout, killSignal: 'SIGKILL' });
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

/** Returns a number, or undefined for a text in brackets: the reason why there is no number. */
function parseReading(field: string | undefined): number | undefined {
  return field === undefined || field.startsWith('[') ? undefined : Number(field);
}
