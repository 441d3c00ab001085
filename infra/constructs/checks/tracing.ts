import type { Problem } from '../base/refuse.ts';

/** Lambda has X-Ray's daemon beside each function; nothing has it beside a worker. */
export function tracingProblem(
  tracing: boolean,
  { kind, feed }: { readonly kind: string; readonly feed?: 'mapping' | 'worker' },
): Problem {
  if (!tracing || feed !== 'worker') return undefined;
  return `tracing: expected false with compute ${kind}, whose workers have no daemon of X-Ray beside them, got true; leave it out`;
}
