import type { SettingsAnswer } from './settings/settings.ts';

/** The settings that are recommended, and why. */
export interface Recommendation {
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly maxBatchRows: number;
  readonly memoryMb: number;
  readonly maximumConcurrency: number;
  readonly reason: string;
  /** US dollars. */
  readonly dollarsPerMillionRows: number;
  /** What belongs into the context of cdk.json. */
  readonly context: Readonly<Record<string, number | string>>;
}

/** @param architecture of the function, where it is not the construct's default */
export function recommendationOf({ chosen, reason }: SettingsAnswer, architecture: string | undefined): Recommendation {
  const { batchSize, windowSeconds, maxBatchRows, memoryMb, maximumConcurrency } = chosen;
  const settings = { batchSize, windowSeconds, maxBatchRows, memoryMb, maximumConcurrency };
  return {
    ...settings,
    reason,
    dollarsPerMillionRows: chosen.dollarsPerMillionRows.total,
    context: { ...settings, ...(architecture === undefined ? {} : { architecture }) },
  };
}
