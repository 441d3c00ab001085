import type { Telemetry } from '../../../lambda/aws/telemetry.ts';

/** A host's telemetry, of which another is told as well. Only the host's own opens and closes invocations. */
export function alsoTell(host: Telemetry, other: Telemetry): Telemetry {
  return {
    ...host,
    outcomes(outcomes, records) {
      host.outcomes(outcomes, records);
      other.outcomes(outcomes, records);
    },
    observer: {
      ...host.observer,
      microBatch(report, records) {
        host.observer.microBatch(report, records);
        other.observer.microBatch(report, records);
      },
      decoded(ms) {
        host.observer.decoded(ms);
        other.observer.decoded(ms);
      },
      written(ms) {
        host.observer.written(ms);
        other.observer.written(ms);
      },
    },
  };
}
