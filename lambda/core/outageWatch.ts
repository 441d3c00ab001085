import { type Failure, PAYLOAD_BUCKET, type TransientCode } from './failure.ts';
import type { Outcome } from './record.ts';

/** Whether what records need can be reached, by what became of the last ones. Lives as long as the process. */
export interface OutageWatch {
  /** Why the last records went back, all of them; undefined as long as some are answered. */
  current(): Failure<TransientCode> | undefined;
  /**
   * Told what became of records that were scored together; undefined is not settled.
   *
   * @returns whether it proves that there is an outage
   */
  saw(outcomes: readonly (Outcome | undefined)[]): boolean;
}

/** Others may need neither the payload bucket nor that model: where fewer records met its outage, they may be at fault. */
const RECORDS_THAT_PROVE = 8;

/** One answer proves that there is no outage, or none that concerns all: where one of several models cannot be opened, the others go on. */
export function createOutageWatch(): OutageWatch {
  let current: Failure<TransientCode> | undefined;
  return {
    current: () => current,
    saw(outcomes) {
      const met = outageIn(outcomes);
      if (outcomes.some((outcome) => outcome?.status === 'answered')) current = undefined;
      else if (met !== undefined && (concernsAll(met) || outcomes.length >= RECORDS_THAT_PROVE)) current = met;
      else return false;
      return current !== undefined;
    },
  };
}

function concernsAll({ code, outage }: Failure): boolean {
  return code === 'WRITE_FAILED' && outage?.of !== PAYLOAD_BUCKET;
}

/** Why records went back, where something could not be reached; undefined where each may be at fault itself. */
export function outageIn(outcomes: readonly (Outcome | undefined)[]): Failure<TransientCode> | undefined {
  for (const outcome of outcomes) {
    if (outcome?.status === 'retry' && outcome.failure.outage !== undefined) return outcome.failure;
  }
  return undefined;
}
