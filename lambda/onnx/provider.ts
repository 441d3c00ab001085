import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { hasCode, messageOf } from '../core/failure.ts';
import { isObject } from '../core/json.ts';
import type { GpuReading } from '../core/observer.ts';

/** An ONNX Runtime execution provider, by its name, or with the device that it works on. */
export type Provider = string | { readonly name: string; readonly deviceId?: number };

/**
 * Those that ONNX Runtime for Node tells which device to work on. It passes on nothing else, and says nothing of it.
 */
const WITH_DEVICES = ['cuda', 'tensorrt', 'dml'];

export function nameOf(provider: Provider): string {
  return typeof provider === 'string' ? provider : provider.name;
}

/** Returns true if its devices are NVIDIA's. */
export function isNvidia(provider: Provider): boolean {
  return nameOf(provider) === 'cuda' || nameOf(provider) === 'tensorrt';
}

/** Returns true if a machine may have several devices that it can work on. */
export function hasDevices(provider: Provider): boolean {
  return WITH_DEVICES.includes(nameOf(provider));
}

/**
 * Returns true if runs go to a GPU: new shapes are slow there, and runs of other shapes round otherwise. One of the
 * providers is enough: ONNX Runtime takes `cpu` for the last, wherever it stands.
 */
export function runOnGpu(providers: readonly Provider[]): boolean {
  return providers.some((provider) => nameOf(provider) !== 'cpu');
}

/** The number of the device that it works on; undefined where it has none. */
function deviceOf(provider: Provider): number | undefined {
  if (!hasDevices(provider)) return undefined;
  return typeof provider === 'string' ? 0 : (provider.deviceId ?? 0);
}

/** The same provider on another device, where it has devices. */
export function onDevice(provider: Provider, deviceId: number): Provider {
  return hasDevices(provider) ? { name: nameOf(provider), deviceId } : provider;
}

/** `cuda, cpu`, for messages. */
export function listProviders(providers: readonly Provider[]): string {
  return providers.map(nameOf).join(', ');
}

/** Where the runs of a model go. */
export interface DeviceAssignment {
  /** The execution provider that was chosen. */
  readonly provider: string;
  /** The name of each device that it is opened on, as far as the machine tells; none on a processor. */
  readonly devices: readonly string[];
  /** The same in words, for the start log. */
  readonly description: string;
}

const NO_DRIVER = 'no NVIDIA driver was found: there is no /proc/driver/nvidia, and nvidia-smi does not answer';

/**
 * @param providers that the model was opened with, first choice first
 * @param devices the devices that were chosen for it. @default the one that its provider names
 * @param readDevices tells what the machine has of NVIDIA
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

/** What the machine has for a provider that cannot be loaded, for the refusal. */
export async function describeDevices(provider: Provider): Promise<string | undefined> {
  return isNvidia(provider) ? describeNvidia(await readNvidiaDevices()) : undefined;
}

function describeNvidia(machine: NvidiaDevices | undefined): string {
  if (machine === undefined) return NO_DRIVER;
  const devices = machine.names.map((name, number) => `${number} (${name})`);
  return `the driver ${machine.driver} has ${devices.length === 0 ? 'no device' : `the devices ${devices.join(', ')}`}`;
}

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

/** What is in brackets says why there is no number. */
function told(field: string | undefined): number | undefined {
  return field === undefined || field.startsWith('[') ? undefined : Number(field);
}
