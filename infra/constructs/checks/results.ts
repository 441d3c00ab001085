import type { Problem } from '../base/refuse.ts';
import { RESULT_STORES, type ResultStore } from '../storage/resultStores.ts';

export function resultsProblem(results: readonly ResultStore[]): Problem {
  const known = results.every((store) => RESULT_STORES.includes(store));
  if (known && results.length > 0 && new Set(results).size === results.length) return undefined;
  const got = results.length > 0 ? results.join(',') : 'none';
  return `results: expected some of ${RESULT_STORES.join(', ')}, each once, got ${got}, name where results shall go`;
}
