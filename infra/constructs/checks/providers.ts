import { nearestName } from '../../../lambda/core/wrongValue.ts';
import type { Problem } from '../base/refuse.ts';
import type { TuningNumbers } from '../environment/tuning.ts';
import type { ImageTarget } from '../image/image.ts';

const OF_GPUS = ['cuda', 'tensorrt'];
/** Those that ONNX Runtime for Node has on Linux. */
const KNOWN = ['cpu', 'webgpu', ...OF_GPUS];

/** A host would not start with a provider that its machine has no card for, unless it may go on with the next. */
export function providersProblem(
  { providers, allowProviderFallback }: TuningNumbers,
  { kind, imageTarget }: { readonly kind: string; readonly imageTarget: ImageTarget },
): Problem {
  const names = providers?.split(',').map((name) => name.trim()) ?? [];
  const unknown = names.find((name) => !KNOWN.includes(name));
  if (unknown !== undefined) {
    const nearest = nearestName(unknown, KNOWN);
    const cure = nearest === undefined ? 'take one of them' : `did you mean ${nearest}?`;
    return `providers: expected execution providers among ${KNOWN.join(', ')}, got '${unknown}'; ${cure}`;
  }
  const needsGpu = names.some((name) => OF_GPUS.includes(name));
  if (!needsGpu || imageTarget.stage.endsWith('-gpu') || allowProviderFallback === true) return undefined;
  return (
    `providers: expected none that needs a GPU, because compute ${kind} has none, got ${providers}; leave it out, take ` +
    `compute ${kind}-gpu or allow a fallback`
  );
}
