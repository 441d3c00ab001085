import { retryReasons, type Telemetry } from '../lambda/aws/telemetry.ts';
import { messageOf } from '../lambda/core/failure.ts';
import type { MicroBatchReport } from '../lambda/core/observer.ts';

import { MICRO_BATCH_CLOSED } from './closedBecause.ts';

/** Says in words what the metrics say on AWS. */
export function createDevTelemetry(say: (message: string) => void): Telemetry {
  return {
    middlewares: [],
    outcomes(outcomes, records) {
      // The codes alone: an error's message may quote the request, and a log must not.
      const codes = outcomes.flatMap((outcome) =>
        outcome.status === 'answered' ? outcome.failures.map(({ code }) => code) : [],
      );
      for (const code of new Set(codes)) say(`  ${code} ${codes.filter((one) => one === code).length}×`);
      for (const { code, reason, records: met } of retryReasons(outcomes, records)) {
        say(`  ${code} ${met}×, to be retried: ${reason}`);
      }
    },
    hostEnds: () => {},
    observer: {
      microBatch: (report) => say(`  micro-batch: ${describe(report)}`),
      decoded: () => {},
      checked: () => {},
      batchMismatch: ({ model, version, messageId, difference, maxRows }) =>
        say(
          `  ${model}/${version} is ${maxRows === 1 ? 'not batched' : `run with ${maxRows} rows at most`} from now on: ` +
            `'${difference.output}' of ${messageId} differs alone`,
        ),
      written: (writeMs) => say(`  written in ${writeMs.toFixed(1)} ms`),
      runAbandoned: ({ name, version }, ranMs) =>
        say(`  a run of ${name}/${version} was left behind after ${Math.round(ranMs)} ms`),
      problem: (error) => say(`  problem: ${messageOf(error)}`),
    },
  };
}

function describe(report: MicroBatchReport): string {
  const { model, version, rows, paddedRows, paddedLength, paddingShare, closedBecause } = report;
  const { stackMs, runMs, encodeMs } = report;
  const run = paddedLength > 1 ? `${paddedRows} × ${paddedLength}` : String(paddedRows);
  const padding = paddingShare > 0 ? `, ${(100 * paddingShare).toFixed(1)} % padding` : '';
  const stages = [stackMs, runMs, encodeMs].map((ms) => ms.toFixed(1)).join(' + ');
  return `${model}/${version}, ${rows} rows run as ${run}${padding} (closed: ${MICRO_BATCH_CLOSED[closedBecause]}), stack + run + encode ${stages} ms`;
}
