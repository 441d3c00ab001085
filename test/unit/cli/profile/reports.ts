import type { Measurement } from '../../../../cli/profile/measure/measureModel.ts';
import { createReport, type MeasuredRun, type ProfileReport } from '../../../../cli/profile/profileReport.ts';
import { SINGLE } from './setup.ts';

export interface Given {
  readonly lengths?: readonly number[];
  readonly threads?: readonly number[];
  /** Milliseconds of a run on one thread. */
  readonly msOf?: (rows: number, length: number) => number;
  readonly maxRows?: number;
  readonly messagesPerSecond?: number;
  readonly budgetMs?: number;
  readonly requestsPerMessage?: number;
}

/** What the command would have found of a model that gains from rows, unless something else is given. */
export function reportOf(given: Given = {}): ProfileReport {
  const { lengths = [1], messagesPerSecond = 100, budgetMs = 2_000, requestsPerMessage = 1 } = given;
  const table = tableOf(given);
  const question = {
    table,
    length: lengths[0] ?? 1,
    messagesPerSecond,
    budgetMs,
    messages: { ...SINGLE, requestsPerMessage },
  };
  const measured: Measurement = {
    path: 'models/digits/1/model.onnx',
    requestBytes: undefined,
    model: 'digits',
    version: '1',
    digest: `sha256:${'0123456789abcdef'.repeat(4)}`,
    date: '2026-11-22T10:00:00.000Z',
    machine: { cpu: 'AMD EPYC 7B13', cores: 2, architecture: 'x64', memoryBytes: 8 * 2 ** 30 },
    provider: 'cpu',
    versions: { batchscore: '0.1.0', node: '24.21.0', onnxruntime: '1.30.0' },
    threads: Math.max(...table.map((run) => run.threads)),
    length: lengths[0] ?? 1,
    safety: { verdict: 'independent', sharesRuns: true, evidence: 'rows are independent, by the graph of the model' },
    coldStart: { processMs: 42.3, libraryMs: 61.2, loadMs: 12.5, warmUpMs: 180.2 },
    table,
    findings: ['a run of 512 rows failed, so 256 rows are the most'],
  };
  return createReport(measured, question);
}

function tableOf({ lengths = [1], threads = [2, 1], msOf = gains, maxRows = 256 }: Given): MeasuredRun[] {
  const counts = Array.from({ length: Math.log2(maxRows) + 1 }, (_, power) => 2 ** power);
  return threads.flatMap((ofThreads) =>
    lengths.flatMap((length) =>
      counts.map((rows) => {
        const medianMs = msOf(rows, length) / (1 + 0.6 * (ofThreads - 1));
        return {
          rows,
          length,
          threads: ofThreads,
          medianMs,
          spread: 0.04,
          rowsPerSecond: (1000 * rows) / medianMs,
          peakRssBytes: 120e6 + rows * length * 9_000,
        };
      }),
    ),
  );
}

function gains(rows: number, length: number): number {
  return 0.4 + 0.004 * rows * length;
}
