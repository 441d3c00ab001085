import type { Recommendation } from '../recommendation.ts';
import type { RunCost } from '../settings/runTimes.ts';
import type { SettingsAnswer, SettingsQuestion } from '../settings/settings.ts';

/** What the page shows: what was measured, what was asked, and what came of it. */
export interface PageReport {
  readonly measured: MeasuredProfile;
  readonly answer: SettingsAnswer;
  readonly recommendation: Recommendation;
  readonly question: Pick<SettingsQuestion, 'messagesPerSecond' | 'budgetMs' | 'prices'>;
  /** The traffic that was asked for, in words. */
  readonly asked: string;
  /** What is assumed in all figures, a sentence each. */
  readonly notes: readonly string[];
}

/** As it stands in profile.json. */
export interface MeasuredProfile {
  readonly model: string;
  readonly version: string;
  readonly digest: string;
  /** ISO 8601. */
  readonly date: string;
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly architecture: string;
    readonly memoryBytes: number;
  };
  readonly provider: string;
  readonly versions: { readonly batchscore: string; readonly node: string; readonly onnxruntime: string };
  /** Of a session as it is deployed on such a machine. */
  readonly threads: number;
  /** Of ordinary rows; 1 where no axis is open. */
  readonly length: number;
  readonly safety: {
    readonly verdict: 'independent' | 'trusted' | 'unknown' | 'dependent' | 'alone';
    readonly maxDifference: number | null;
    readonly probes: number;
  };
  readonly coldStart: {
    readonly processMs: number;
    readonly libraryMs: number;
    readonly loadMs: number;
    readonly warmUpMs: number;
  };
  readonly table: readonly MeasuredRun[];
  readonly findings: readonly string[];
}

export interface MeasuredRun extends RunCost {
  /** Of the middle 80 % of the runs, as a share of the median. */
  readonly spread: number;
}
