import { type NvidiaDevices, readNvidiaDevices } from './nvidiaDevices.ts';

/** An ONNX Runtime execution provider, by its name, or with the device that it works on. */
export type Provider = string | { readonly name: string; readonly deviceId?: number };

/** Those that ONNX Runtime for Node tells which device to work on. It passes on nothing else, and says nothing of it. */
const WITH_DEVICES = ['cuda', 'tensorrt', 'dml'];

export function nameOf(provider: Provider): string {
  return typeof provider === 'string' ? provider : provider.name;
}

/** Whether its devices are NVIDIA's. */
export function isNvidia(provider: Provider): boolean {
  return nameOf(provider) === 'cuda' || nameOf(provider) === 'tensorrt';
}

/** Whether a machine may have several devices that it can work on. */
export function hasDevices(provider: Provider): boolean {
  return WITH_DEVICES.includes(nameOf(provider));
}

/**
 * Whether runs go to a GPU: new shapes are slow there, and runs of other shapes round otherwise. One of the providers is
 * enough: ONNX Runtime takes `cpu` for the last, wherever it stands.
 */
export function runOnGpu(providers: readonly Provider[]): boolean {
  return providers.some((provider) => nameOf(provider) !== 'cpu');
}

/** The number of the device that it works on; undefined where it has none. */
export function deviceOf(provider: Provider): number | undefined {
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

export function describeNvidia(machine: NvidiaDevices | undefined): string {
  if (machine === undefined) return NO_DRIVER;
  const devices = machine.names.map((name, number) => `${number} (${name})`);
  return `the driver ${machine.driver} has ${devices.length === 0 ? 'no device' : `the devices ${devices.join(', ')}`}`;
}
