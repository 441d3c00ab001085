import { createHash } from 'node:crypto';
import type { MeasuredRun } from '../../lambda/core/model.ts';
import { type ProfileFile, runtimeVersion, thisMachine } from '../../lambda/onnx/profileFile.ts';

/** A profile of a model, as if it had been measured on this machine, with these runs on one thread. */
export function profileOf(
  model: Uint8Array,
  runs: readonly MeasuredRun[],
  more: Partial<ProfileFile> = {},
): ProfileFile {
  return {
    schemaVersion: 1,
    model: 'model',
    version: '1',
    digest: `sha256:${createHash('sha256').update(model).digest('hex')}`,
    date: '2026-11-22T10:00:00.000Z',
    machine: thisMachine(),
    provider: 'cpu',
    versions: { batchscore: '0.1.0', node: process.versions.node, onnxruntime: runtimeVersion() },
    threads: 1,
    length: runs[0]?.length ?? 1,
    safety: { verdict: 'independent', sharesRuns: true, evidence: 'rows are independent, by the graph of the model' },
    coldStart: { processMs: 40, libraryMs: 300, loadMs: 50, warmUpMs: 30 },
    table: runs.map(({ rows, length, ms }) => ({
      rows,
      length,
      threads: 1,
      medianMs: ms,
      spread: 0.1,
      rowsPerSecond: (1000 * rows) / ms,
      peakRssBytes: 150_000_000,
    })),
    findings: [],
    recommendation: {
      batchSize: 50,
      windowSeconds: 1,
      maxBatchRows: 512,
      memoryMb: 512,
      maximumConcurrency: 2,
      reason: 'a run of 512 rows gives 90 times the rows a second of one row',
      dollarsPerMillionRows: 0.41,
    },
    ...more,
  };
}
