import type { InferenceSession } from 'onnxruntime-node';
import { drawTypicalMessages } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { type Feeds, stackMessages } from './bareSession.ts';

/** What was found by running the model at several sizes. */
export interface Sweep {
  /** The smallest size within 2 % of the most rows per second: of equals, the one that takes the least memory. */
  readonly bestRows: number;
  /** Rows per second at the best size, divided by those at one row. */
  readonly gain: number;
  readonly rowsPerSecond: number;
}

const SIZES = Array.from({ length: 11 }, (_, power) => 2 ** power);
const TIE = 0.02;
const ROUNDS = 5;
const TRIED_FOR_MS = 30;
/** Sizes above one that takes longer are not tried. */
const LONGEST_RUN_MS = 300;

/** A size, and the fastest of its runs: whatever else the machine does only makes runs slower. */
interface Trial {
  readonly rows: number;
  readonly feeds: Feeds;
  fastestMs: number;
}

/**
 * Runs the model at 1, 2, 4, … rows of typical length, in rounds one after the other.
 *
 * @param mostRows the largest size
 */
export async function sweep(session: InferenceSession, scenario: Scenario, mostRows = 1024): Promise<Sweep> {
  const trials: Trial[] = [];
  for (const rows of SIZES.filter((size) => size <= mostRows)) {
    const trial = {
      rows,
      feeds: stackMessages(drawTypicalMessages(scenario, rows)),
      fastestMs: Number.POSITIVE_INFINITY,
    };
    await session.run(trial.feeds);
    await runFor(TRIED_FOR_MS, session, trial);
    trials.push(trial);
    if (trial.fastestMs > LONGEST_RUN_MS) break;
  }
  for (let round = 1; round < ROUNDS; round++) {
    for (const trial of trials) await runFor(TRIED_FOR_MS, session, trial);
  }
  return choose(trials as [Trial, ...Trial[]]);
}

async function runFor(ms: number, session: InferenceSession, trial: Trial): Promise<void> {
  const until = performance.now() + ms;
  do {
    const startedAt = performance.now();
    await session.run(trial.feeds);
    trial.fastestMs = Math.min(trial.fastestMs, performance.now() - startedAt);
  } while (performance.now() < until);
}

function choose(trials: readonly [Trial, ...Trial[]]): Sweep {
  const rate = ({ rows, fastestMs }: Trial): number => rows / fastestMs;
  const most = Math.max(...trials.map(rate));
  const [one] = trials;
  const best = trials.find((trial) => rate(trial) >= most * (1 - TIE)) ?? one;
  return {
    bestRows: best.rows,
    gain: rate(best) / rate(one),
    rowsPerSecond: 1000 * rate(best),
  };
}
