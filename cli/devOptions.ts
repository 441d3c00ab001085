import { CONFIG_KEYS } from '../lambda/configKeys.ts';
import {
  BATCH_SIZE,
  FILL,
  mappingProblems,
  RANGES,
  type Range,
  STORES,
  WINDOW_SECONDS,
} from '../lambda/core/limits.ts';
import { UsageError, wholeNumber } from './arguments.ts';
import type { Batching } from './local/localStack.ts';

export const DEFAULTS = { batchSize: 100, windowSeconds: 1, results: 'queue' };

/** @throws UsageError for an option that is no port */
export function pagePortFrom(option: string | undefined): number | undefined {
  return option === undefined ? undefined : wholeNumber('--page-port', option, 0, 65_535);
}

/** What the environment says is checked with the rest of it. @throws UsageError for an option that names no stores */
export function storesFrom(option: string | undefined, environment: NodeJS.ProcessEnv): string[] {
  const list = option ?? environment[CONFIG_KEYS.results] ?? DEFAULTS.results;
  const stores = list.split(',').map((store) => store.trim());
  const known: readonly string[] = STORES;
  if (option !== undefined && !stores.every((store) => known.includes(store))) {
    throw new UsageError(
      `--results: expected queue, table or bucket, or several of them, comma-separated, got ${option}`,
    );
  }
  return stores;
}

/** What the environment says is checked with the rest of it. @throws UsageError for an option that is no such number */
export function resultsPerMessageFrom(option: string | undefined, environment: NodeJS.ProcessEnv): string | undefined {
  const { least, most } = RANGES.resultsPerMessage;
  if (option !== undefined && option !== FILL) wholeNumber('--results-per-message', option, least, most);
  return option ?? environment[CONFIG_KEYS.resultsPerMessage];
}

/** @throws UsageError for what AWS would refuse */
export function batchingFrom(
  batchSizeOption: string | undefined,
  windowOption: string | undefined,
  environment: NodeJS.ProcessEnv,
): Batching {
  const whole = (option: string, text: string | undefined, key: string, { least, most }: Range, fallback: number) =>
    text === undefined
      ? wholeNumber(key, environment[key] ?? String(fallback), least, most)
      : wholeNumber(option, text, least, most);
  const batchSize = whole('--batch-size', batchSizeOption, CONFIG_KEYS.batchSize, BATCH_SIZE, DEFAULTS.batchSize);
  const windowSeconds = whole(
    '--window',
    windowOption,
    CONFIG_KEYS.windowSeconds,
    WINDOW_SECONDS,
    DEFAULTS.windowSeconds,
  );
  const problems = mappingProblems({ fifo: false, batchSize, windowSeconds });
  if (problems.length > 0) throw new UsageError(`--batch-size, --window: ${problems.join('; ')}`);
  return { batchSize, windowSeconds };
}
