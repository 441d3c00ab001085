import type { Expectation } from './expect.ts';
import type { RunTimes } from './runTimes.ts';

/** What was chosen of everything that was tried. */
export interface Choice {
  readonly chosen: Expectation;
  /** The cheapest that hands messages over one at a time. */
  readonly oneByOne: Expectation;
  /** The cheapest of all within the budget; undefined where none is. */
  readonly cheapest: Expectation | undefined;
  readonly reason: string;
}

/** Running rows together pays where it gives so many times the rows a second of rows alone. */
export const LEAST_GAIN = 1.1;
/** Settings that cost so little more are as good, if they answer sooner. */
const AS_CHEAP = 1.01;

/**
 * The cheapest settings within the budget. Where the model gains nothing from rows that run together, batches of one and no
 * window: messages that share an invocation then only wait for each other.
 *
 * @param expectations at least one with batches of one; undefined is returned without
 * @param times what the best run gains over rows alone, and what of that is sure
 */
export function choose(
  expectations: readonly Expectation[],
  times: Pick<RunTimes, 'gain' | 'sureGain'>,
  budgetMs: number,
): Choice | undefined {
  const { gain, sureGain } = times;
  const isWithin = ({ p99AgeMs }: Expectation) => p99AgeMs <= budgetMs;
  const singles = expectations.filter(({ batchSize }) => batchSize === 1);
  const oneByOne = cheapestOf(singles.filter(isWithin)) ?? soonestOf(singles);
  if (oneByOne === undefined) return undefined;
  const cheapest = cheapestOf(expectations.filter(isWithin));
  const found = { oneByOne, cheapest };
  if (sureGain < LEAST_GAIN) {
    return {
      ...found,
      chosen: oneByOne,
      reason: `${doesNotPay(gain)}${savedByHops(oneByOne, cheapest)}${late(oneByOne, budgetMs)}`,
    };
  }
  if (cheapest === undefined) {
    const soonest = soonestOf(expectations) ?? oneByOne;
    return { ...found, chosen: soonest, reason: late(soonest, budgetMs).slice(2) };
  }
  const { maxBatchRows, batchSize } = cheapest;
  const gains = `a run of ${maxBatchRows} rows gives ${gain.toFixed(1)} times the rows a second of one row`;
  if (batchSize === 1) {
    const reason = `batching does not pay at this rate: ${gains}, but no batch within the budget costs less than single messages`;
    return { ...found, chosen: cheapest, reason };
  }
  const saved = `${usd(cheapest)} a million rows in place of ${usd(oneByOne)} one by one`;
  const gathered = `${cheapest.messagesPerInvocation.toFixed(1)} messages to an invocation`;
  return {
    ...found,
    chosen: cheapest,
    reason: `${gains}; with ${gathered} it is ${saved}, and all but 1 % are answered within ${seconds(cheapest)} of ${budgetMs / 1000} s`,
  };
}

function doesNotPay(gain: number): string {
  if (gain >= LEAST_GAIN) {
    return `batching is not shown to pay: the best run gives ${gain.toFixed(2)} times the rows a second of one row, and runs of one size differ by more than that; measure again on a machine that does nothing else`;
  }
  return `batching does not pay: the best run gives ${gain.toFixed(2)} times the rows a second of one row, less than ${LEAST_GAIN}`;
}

function savedByHops(oneByOne: Expectation, cheapest: Expectation | undefined): string {
  if (cheapest === undefined || cheapest.batchSize === 1) return '';
  return (
    `; batches of ${cheapest.batchSize} within ${cheapest.windowSeconds} s would save calls and round trips alone, ` +
    `${usd(cheapest)} a million rows in place of ${usd(oneByOne)}`
  );
}

function late(expectation: Expectation, budgetMs: number): string {
  if (expectation.p99AgeMs <= budgetMs) return '';
  return `; nothing that was tried answers all but 1 % within ${budgetMs / 1000} s, this takes ${seconds(expectation)}: allow more time`;
}

function cheapestOf(expectations: readonly Expectation[]): Expectation | undefined {
  const least = Math.min(...expectations.map(total));
  return soonestOf(expectations.filter((one) => total(one) <= AS_CHEAP * least));
}

function soonestOf(expectations: readonly Expectation[]): Expectation | undefined {
  return expectations.toSorted((a, b) => a.p99AgeMs - b.p99AgeMs || a.memoryMb - b.memoryMb)[0];
}

function total({ dollarsPerMillionRows }: Expectation): number {
  return dollarsPerMillionRows.total;
}

function usd(expectation: Expectation): string {
  return `${total(expectation).toFixed(2)} $`;
}

function seconds({ p99AgeMs }: Expectation): string {
  return `${(p99AgeMs / 1000).toFixed(2)} s`;
}
