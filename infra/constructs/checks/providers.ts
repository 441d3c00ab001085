import type { Problem } from '../base/refuse.ts';
import type { TuningNumbers } from '../environment/tuning.ts';
import type { ImageTarget } from '../image/image.ts';

const OF_GPUS = ['cuda', 'tensorrt'];

/** A host would not start with a provider that its machine has no card for, unless it may go on with the next. */
export function providersProblem(
  { providers, allowProviderFallback }: TuningNumbers,
  { kind, imageTarget }: { readonly kind: string; readonly imageTarget: ImageTarget },
): Problem {
  const needsGpu = providers?.split(',').some((provider) => OF_GPUS.includes(provider.trim()));
  if (needsGpu !== true || imageTarget.stage.endsWith('-gpu') || allowProviderFallback === true) return undefined;
  return (
    `providers: expected none that needs a GPU, because compute ${kind} has none, got ${providers}; leave it out, take ` +
    `compute ${kind}-gpu or allow a fallback`
  );
}
