import type { Prices } from '../../infra/priceList.ts';

export interface EstimateInput {
  readonly rows: number;
  readonly bytes: number;
  /** Of one call. */
  readonly rowsPerSecond: number;
  /** Most calls at a time. */
  readonly concurrency: number;
  readonly memoryMb: number;
  readonly architecture: 'arm64' | 'x64';
  readonly partBytes: number;
  readonly pieceBytes: number;
}

/** What a job comes to. Dollars by what they are paid for. */
export interface Estimate {
  readonly rows: number;
  readonly parts: number;
  readonly pieces: number;
  readonly minutes: number;
  readonly dollars: {
    readonly compute: number;
    readonly objects: number;
    readonly transitions: number;
    readonly all: number;
  };
  readonly dollarsPerMillion: number;
}

/** A part is scored, asked whether there is more of it, and done. */
const TRANSITIONS_A_PART = 3;
/** Plan, parts, finish and done. */
const TRANSITIONS_A_JOB = 4;
/** A piece puts its data, mostly as one object, and its report, a job what it was planned with, the plan and the manifest. */
const PUTS_A_PIECE = 2;
const PUTS_A_JOB = 3;
/** A piece is read and looked for, and its report read when the job is finished; a part reads what the job was planned with. */
const GETS_A_PIECE = 3;
const GETS_A_PART = 1;
const MIB_A_GIB = 1024;

/**
 * Reckons what a job takes, from what one call scores in a second: nothing is measured, and cold starts, retries and logs
 * are not in it. Calls run side by side from the first second on.
 */
export function estimate(input: EstimateInput, prices: Prices): Estimate {
  const { rows, bytes, rowsPerSecond, concurrency, memoryMb, architecture, partBytes, pieceBytes } = input;
  const parts = Math.max(1, Math.ceil(bytes / partBytes));
  const whole = Math.floor(bytes / partBytes);
  const rest = bytes - whole * partBytes;
  const pieces = whole * Math.ceil(partBytes / pieceBytes) + Math.ceil(rest / pieceBytes);
  const seconds = rows / rowsPerSecond;
  const gbSecond = architecture === 'arm64' ? prices.lambdaArmGbSecond : prices.lambdaX86GbSecond;
  const calls = (parts * prices.lambdaMillionRequests) / 1e6;
  const compute = (seconds * memoryMb * gbSecond) / MIB_A_GIB + calls;
  const puts = ((PUTS_A_PIECE * pieces + PUTS_A_JOB) * prices.s3ThousandPuts) / 1000;
  const gets = ((GETS_A_PIECE * pieces + GETS_A_PART * parts) * prices.s3ThousandGets) / 1000;
  const entered = TRANSITIONS_A_PART * parts + TRANSITIONS_A_JOB;
  const transitions = (entered * prices.stepFunctionsThousandTransitions) / 1000;
  const all = compute + puts + gets + transitions;
  return {
    rows,
    parts,
    pieces,
    minutes: seconds / Math.min(concurrency, parts) / 60,
    dollars: { compute, objects: puts + gets, transitions, all },
    dollarsPerMillion: rows === 0 ? 0 : (all / rows) * 1e6,
  };
}
