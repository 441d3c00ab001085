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
