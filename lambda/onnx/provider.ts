import { type NvidiaCards, readNvidiaCards } from '../aws/nvidiaCards.ts';

/** An ONNX Runtime execution provider, by its name, or with the card that it works on. */
export type Provider = string | { readonly name: string; readonly deviceId?: number };

/** Those that ONNX Runtime for Node tells which card to work on. It passes on nothing else, and says nothing of it. */
const WITH_CARDS = ['cuda', 'tensorrt', 'dml'];

export function nameOf(provider: Provider): string {
  return typeof provider === 'string' ? provider : provider.name;
}

/** Whether its cards are NVIDIA's. */
export function isNvidia(provider: Provider): boolean {
  return nameOf(provider) === 'cuda' || nameOf(provider) === 'tensorrt';
}

/** Whether a machine may have several cards that it can work on. */
export function hasCards(provider: Provider): boolean {
  return WITH_CARDS.includes(nameOf(provider));
}

/**
 * Whether runs go to a GPU: new shapes are slow there, and runs of other shapes round otherwise. One of the providers is
 * enough: ONNX Runtime takes `cpu` for the last, wherever it stands.
 */
export function runOnGpu(providers: readonly Provider[]): boolean {
  return providers.some((provider) => nameOf(provider) !== 'cpu');
}

/** The number of the card that it works on; undefined where it has none. */
export function cardOf(provider: Provider): number | undefined {
  if (!hasCards(provider)) return undefined;
  return typeof provider === 'string' ? 0 : (provider.deviceId ?? 0);
}

/** The same provider on another card, where it has cards. */
export function onCard(provider: Provider, deviceId: number): Provider {
  return hasCards(provider) ? { name: nameOf(provider), deviceId } : provider;
}

/** `cuda, cpu`, for messages. */
export function listProviders(providers: readonly Provider[]): string {
  return providers.map(nameOf).join(', ');
}

/** Where the runs of a model go. */
export interface DeviceAssignment {
  /** The execution provider that was chosen. */
  readonly provider: string;
  /** The name of each card that it is opened on, as far as the machine tells; none on a processor. */
  readonly cards: readonly string[];
  /** The same in words, for the start log. */
  readonly description: string;
}

const NO_DRIVER = 'no NVIDIA driver was found: there is no /proc/driver/nvidia, and nvidia-smi does not answer';

/**
 * @param providers that the model was opened with, first choice first
 * @param devices the cards that were chosen for it. @default the one that its provider names
 * @param readCards tells what the machine has of NVIDIA
 */
export async function assignmentOf(
  providers: readonly Provider[],
  devices?: readonly number[],
  readCards: typeof readNvidiaCards = readNvidiaCards,
): Promise<DeviceAssignment> {
  const [first = 'cpu'] = providers;
  const provider = nameOf(first);
  const own = cardOf(first);
  if (own === undefined) return { provider, cards: [], description: provider };
  const numbers = devices ?? [own];
  const machine = isNvidia(first) ? await readCards() : undefined;
  const cards = numbers.map((number) => machine?.names[number] ?? `card ${number}`);
  const what = `${provider}, ${numbers.length === 1 ? 'card' : 'cards'} ${numbers.join(', ')}`;
  const details =
    machine === undefined ? 'no name is known' : `${[...new Set(cards)].join(', ')}, driver ${machine.driver}`;
  return { provider, cards, description: `${what} (${details})` };
}

/** What the machine has for a provider that cannot be loaded, for the refusal. */
export async function describeCards(provider: Provider): Promise<string | undefined> {
  return isNvidia(provider) ? describeNvidia(await readNvidiaCards()) : undefined;
}

export function describeNvidia(machine: NvidiaCards | undefined): string {
  if (machine === undefined) return NO_DRIVER;
  const cards = machine.names.map((name, number) => `${number} (${name})`);
  return `the driver ${machine.driver} has ${cards.length === 0 ? 'no card' : `the cards ${cards.join(', ')}`}`;
}
