import type { InferenceSession } from 'onnxruntime-node';
import { stackMessages } from './bareSession.ts';
import { median } from './median.ts';
import { drawTypicalMessages } from './messages.ts';
import type { Scenario } from './scenarios.ts';

/** What the model does at the sizes it was tried at. */
export interface Sweep {
  /** The smallest size whose rows per second are within {@link TIE} of the most: of equals, the one of least memory. */
  readonly bestRows: number;
  /** Rows per second at the best size, divided by those at one row. */
  readonly gain: number;
  /** What a run costs by the sweep: so much for the call, and so much for each row of each unit of length. */
  readonly overheadMs: number;
  readonly msPerUnit: number;
}

const SIZES = Array.from({ length: 11 }, (_, power) => 2 ** power);
const TIE = 0.02;
const TRIED_FOR_MS = 150;
/** Sizes above one that takes so long are not tried. */
const LONGEST_RUN_MS = 300;

/** Runs the model at 1, 2, 4, … 1,024 rows of typical length. */
export async function sweep(session: InferenceSession, scenario: Scenario): Promise<Sweep> {
  const tried: { readonly rows: number; readonly ms: number }[] = [];
  for (const rows of SIZES) {
    const ms = await medianRunMs(session, scenario, rows);
    tried.push({ rows, ms });
    if (ms > LONGEST_RUN_MS) break;
  }
  const most = Math.max(...tried.map(({ rows, ms }) => rows / ms));
  const [one] = tried as [(typeof tried)[number]];
  const best = tried.find(({ rows, ms }) => rows / ms >= most * (1 - TIE)) ?? one;
  const msPerRow = best.rows > 1 ? (best.ms - one.ms) / (best.rows - 1) : one.ms;
  return {
    bestRows: best.rows,
    gain: best.rows / best.ms / (one.rows / one.ms),
    overheadMs: Math.max(0, one.ms - msPerRow),
    msPerUnit: msPerRow / (scenario.lengths?.typical ?? 1),
  };
}

async function medianRunMs(session: InferenceSession, scenario: Scenario, rows: number): Promise<number> {
  const feeds = stackMessages(drawTypicalMessages(scenario, rows));
  await session.run(feeds);
  const runsMs: number[] = [];
  const until = performance.now() + TRIED_FOR_MS;
  do {
    const startedAt = performance.now();
    await session.run(feeds);
    runsMs.push(performance.now() - startedAt);
  } while (performance.now() < until);
  return median(runsMs);
}
