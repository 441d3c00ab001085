import { BATCH_SIZE, WINDOW_SECONDS } from '../../lambda/core/limits.ts';
import { UsageError, wholeNumber } from '../arguments.ts';

const MOST_WITHOUT_WINDOW = 10;
const MOST_A_SECOND = 1_000;

/** As they are typed. */
interface Options {
  readonly 'batch-size'?: string | undefined;
  readonly window: string;
  readonly 'arrival-rate'?: string | undefined;
}

/** How messages come, and how they are batched. */
export interface Traffic {
  /** @default a quarter of all messages */
  readonly batchSize: number | undefined;
  readonly windowSeconds: number;
  /** Messages a second. @default as fast as the queue takes them */
  readonly perSecond: number | undefined;
}

/** @throws UsageError for what AWS would refuse, too */
export function trafficOf({ 'batch-size': size, window, 'arrival-rate': rate }: Options): Traffic {
  const batchSize = size === undefined ? undefined : wholeNumber('--batch-size', size, 1, BATCH_SIZE.most);
  const windowSeconds = wholeNumber('--window', window, 0, WINDOW_SECONDS.most);
  if (windowSeconds === 0 && (batchSize === undefined || batchSize > MOST_WITHOUT_WINDOW)) {
    const got = batchSize === undefined ? 'no --batch-size' : `--batch-size ${batchSize}`;
    throw new UsageError(`--window: expected 0 only with a --batch-size of ${MOST_WITHOUT_WINDOW} or less, got ${got}`);
  }
  const perSecond = rate === undefined ? undefined : wholeNumber('--arrival-rate', rate, 1, MOST_A_SECOND);
  return { batchSize, windowSeconds, perSecond };
}
