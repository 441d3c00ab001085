import type { SQSRecord } from 'aws-lambda';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import type { Batchscore } from '../contestants/batchscore.ts';

/** What shapes cost that a model was not run at before; batches of so many rows, one after the other. */
export interface FirstSeen {
  readonly rows: readonly number[];
  readonly withoutWarmUp: FirstInvocations;
  readonly withWarmUp: FirstInvocations;
}

export interface FirstInvocations {
  /** Until the model takes requests. */
  readonly loadMs: number;
  /** The first batch of so many rows, and the second. */
  readonly firstMs: readonly number[];
  readonly againMs: readonly number[];
}

/** Writes the model's config.json. */
export type Configure = (more: Readonly<Record<string, unknown>>) => Promise<void>;
export type Open = (variables?: Readonly<Record<string, string>>) => Promise<Batchscore>;

/** Rows that are run once more to be compared would count as well. */
const UNCHECKED = { [CONFIG_KEYS.checkPercent]: '0' };

/** @param rungs of the model's ladder, ascending */
export async function measureFirstSeen(
  records: SQSRecord[],
  rungs: readonly number[],
  configure: Configure,
  open: Open,
): Promise<FirstSeen> {
  const rows = rungs.filter((count) => count <= records.length);
  const measure = async (): Promise<FirstInvocations> => {
    const startedAt = performance.now();
    const batchscore = await open(UNCHECKED);
    const loadMs = performance.now() - startedAt;
    const firstMs: number[] = [];
    const againMs: number[] = [];
    for (const count of rows) {
      for (const taken of [firstMs, againMs]) taken.push(await invocationMs(batchscore, records.slice(0, count)));
    }
    await batchscore.close();
    return { loadMs, firstMs, againMs };
  };
  await configure({ warmup: false, batching: 'trust' });
  const withoutWarmUp = await measure();
  await configure({});
  return { rows, withoutWarmUp, withWarmUp: await measure() };
}

async function invocationMs(batchscore: Batchscore, records: SQSRecord[]): Promise<number> {
  const startedAt = performance.now();
  await batchscore.invoke(records);
  return performance.now() - startedAt;
}
