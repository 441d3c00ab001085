import { messageOf } from '../../core/contract/failure.ts';
import type { SessionSpec } from '../sessionJobs.ts';
import { explainLoadError } from './explainLoadError.ts';
import { UnknownProviderError } from './openThread.ts';
import { describeCards } from './placement.ts';
import { listProviders, nameOf, type Provider } from './provider.ts';
import { openSession, type Session } from './session.ts';

export interface ProviderFallback {
  /** Go on with the next provider, with a warning, when one cannot be loaded. */
  readonly allowProviderFallback: boolean;
  /** Told of every provider that is passed over. */
  readonly warn: (message: string) => void;
  /** Whether a provider can open a model on several cards; for others `devices` says nothing. */
  readonly takesCards: (provider: Provider) => boolean;
}

export interface OpenedWithProviders {
  readonly session: Session;
  /** Those that it was opened with, first choice first. */
  readonly providers: readonly Provider[];
  /** The cards that were chosen, if any. */
  readonly devices: readonly number[] | undefined;
}

/**
 * Opens a session on the first of its providers, or on a later one where that is allowed.
 *
 * @param stuckRuns holds something for every run that was left behind, until it ends
 * @throws Error naming the model file, and the provider or what is wrong with the model
 */
export async function openWithProviders(
  spec: SessionSpec,
  fallback: ProviderFallback,
  stuckRuns: Set<object>,
): Promise<OpenedWithProviders> {
  const { path, providers } = spec;
  const [first = 'cpu', ...rest] = providers;
  try {
    const devices = fallback.takesCards(first) ? spec.devices : undefined;
    return { session: await openSession({ ...spec, devices }, stuckRuns), providers, devices };
  } catch (cause) {
    if (cause instanceof UnknownProviderError) throw new Error(`${path}: ${cause.message}`, { cause });
    if (nameOf(first) === 'cpu' || !(await opensOnCpu(spec))) {
      throw new Error(`${path}: cannot be loaded: ${explainLoadError(messageOf(cause))}`, { cause });
    }
    const found = await describeCards(first);
    const hint = found === undefined ? PROVIDER_HINT : `${found}; ${PROVIDER_HINT}`;
    const reason = `execution provider '${nameOf(first)}' is not available (${messageOf(cause)}); ${hint}`;
    if (!fallback.allowProviderFallback || rest.length === 0) {
      throw new Error(`${path}: ${reason}; or choose another provider, or allow falling back to the next`, { cause });
    }
    fallback.warn(`${path}: ${reason}; falling back to ${listProviders(rest)} as configured`);
    return openWithProviders({ ...spec, providers: rest }, fallback, stuckRuns);
  }
}

const PROVIDER_HINT =
  'for cuda, libonnxruntime_providers_shared.so and libonnxruntime_providers_cuda.so must lie beside the binding of ' +
  "onnxruntime-node, CUDA and cuDNN on the library path, and the driver's libcuda.so.1 on the machine";

/** Whether the model itself is sound: ONNX Runtime's errors do not tell a provider's failure from a model's. */
async function opensOnCpu(spec: SessionSpec): Promise<boolean> {
  try {
    const session = await openSession({ ...spec, providers: ['cpu'], devices: undefined });
    await session.close();
    return true;
  } catch {
    return false;
  }
}
