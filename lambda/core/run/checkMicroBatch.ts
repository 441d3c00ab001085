import { type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import { unstack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { CheckAllowance } from './batchingWatch.ts';
import {
  areAlike,
  type Differing,
  differingRequests,
  explainDifference,
  inputsOf,
  type RunBothWays,
  stopBatching,
  unitOf,
  type Verdict,
} from './compareRuns.ts';
import type { Invocation } from './invocation.ts';
import { type CheckRuns, createCheckRuns, expectedCheckMs } from './runForCheck.ts';
import type { Ran } from './runMicroBatch.ts';

/** Checks take no more of the time that is left together. */
const SHARE_OF_TIME_LEFT = 1 / 4;

/**
 * Runs requests of a micro-batch that has run alone as well, where that is due, and compares. The first micro-batches of a
 * model in this process are checked until enough different requests agree, later ones as often as the model's share of
 * run time allows, and any with more rows than were proved.
 *
 * @returns whether the micro-batch may be answered with its outputs
 */
export async function mayBeAnswered(
  batch: MicroBatch,
  { outputs, runMs, card }: Ran,
  invocation: Invocation,
): Promise<boolean> {
  const { batching, observer } = invocation.deps;
  const { model } = batch;
  if (batch.parts.length === 1) return true;
  const allowance = batching.ran(batch, runMs);
  if (allowance !== undefined) {
    const checks = createCheckRuns(invocation, card);
    const { verdict, compared } = await check(batch, outputs, allowance, checks, invocation);
    if (verdict.status === 'differ') stopBatching(verdict, invocation);
    if (checks.runs > 0) {
      batching.checked(batch, allowance, verdict.status === 'agree' ? compared : 0, checks.spentMs);
      observer.checked(checks.spentMs);
    }
    if (verdict.status !== 'agree' || (allowance.isNeeded && compared === 0)) return false;
  }
  // Another micro-batch may have been found out in the meantime.
  return batching.batchingOf(model) === 'together' && batch.rows <= batching.sharingOf(model).maxRows;
}

interface Checked {
  readonly verdict: Verdict;
  /** How many different requests were run alone. */
  readonly compared: number;
}

async function check(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  allowance: CheckAllowance,
  checks: CheckRuns,
  invocation: Invocation,
): Promise<Checked> {
  const limitMs = Math.min(allowance.checkMs, SHARE_OF_TIME_LEFT * invocation.time.remainingMs());
  const known: (readonly Tensor[])[] = [];
  let differing: Differing | undefined;
  for (const { part, row } of unitsToCheck(batch, allowance)) {
    const alone = microBatchOf(batch.model, [part], batch.closedBecause);
    const isFirst = checks.runs === 0 && !allowance.isCharged;
    if (!isFirst && checks.spentMs + expectedCheckMs(alone, invocation) > limitMs) break;
    const inputs = inputsOf(part);
    if (known.some((one) => areAlike(one, inputs))) continue;
    const ran = await checks.run(alone);
    if (ran === undefined) break;
    known.push(inputs);
    const one: RunBothWays = { part, row, outputs: unstack(alone, part, 0, ran.outputs) };
    [differing] = differingRequests(batch, outputs, [one]);
    if (differing !== undefined) break;
  }
  const verdict: Verdict =
    differing === undefined ? { status: 'agree' } : await explainDifference(batch, outputs, differing, checks);
  return { verdict, compared: known.length };
}

/** Requests at about equal distances, round from where the allowance begins. */
function* unitsToCheck(
  { parts }: MicroBatch,
  { requests, from }: CheckAllowance,
): Generator<Omit<RunBothWays, 'outputs'>> {
  const firstRows: number[] = [];
  let rows = 0;
  for (const { fromRow, toRow } of parts) {
    firstRows.push(rows);
    rows += toRow - fromRow;
  }
  const count = Math.min(requests, parts.length);
  const first = Math.floor(from * parts.length);
  for (let index = 0; index < count; index++) {
    const place = (first + Math.floor((index * parts.length) / count)) % parts.length;
    yield { part: unitOf(parts[place] as Part), row: firstRows[place] as number };
  }
}
