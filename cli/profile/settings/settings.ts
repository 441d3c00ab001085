import type { Prices } from '../../../infra/priceList.ts';
import { type Arrivals, poissonArrivals } from './arrivals.ts';
import { candidatesFor } from './candidates.ts';
import { type Choice, choose } from './choose.ts';
import type { Architecture, Dollars } from './dollars.ts';
import { type Expectation, expect } from './expect.ts';
import { type FormCurve, formCurves } from './formCurves.ts';
import { type BreakEven, breakEvens, formsOf, type GpuProfile } from './forms.ts';
import { HOST_COSTS, type HostCosts, type Invocation, type Messages } from './invocation.ts';
import type { RunCost } from './runTimes.ts';

/** What settings are looked for. */
export interface SettingsQuestion {
  /** What runs took: some rows of each of some lengths, for one or more numbers of threads. */
  readonly table: readonly RunCost[];
  /** Of the rows; 1 without a ragged axis. */
  readonly length: number;
  /** @default Poisson arrivals at `messagesPerSecond` */
  readonly trace?: Arrivals | undefined;
  readonly messagesPerSecond: number;
  /** Within it all but the slowest hundredth of the messages are to be answered. */
  readonly budgetMs: number;
  readonly messages: Messages;
  readonly prices: Prices;
  /** Of the function that is deployed. */
  readonly architecture: Architecture;
  readonly gpus?: readonly GpuProfile[] | undefined;
  /** @default {@link HOST_COSTS} */
  readonly host?: HostCosts | undefined;
}

export interface SettingsAnswer extends Choice {
  /** How many times as many rows a second as one by one the best run gives. */
  readonly gain: number;
  readonly tried: number;
  /** The best of each batch size and window, the cheapest first. */
  readonly candidates: readonly Expectation[];
  /** Of the forms of compute; null where nothing was measured on it. */
  readonly forms: readonly { readonly name: string; readonly dollarsPerMillionRows: Dollars | null }[];
  readonly breakEvens: readonly BreakEven[];
  readonly curves: readonly FormCurve[];
}

/** Messages of so many seconds: few for the many candidates, which all get the same ones; more for those that are shown. */
const TO_TRY = { seconds: 10, least: 2_000, most: 10_000 };
const TO_TELL = { seconds: 60, least: 10_000, most: 50_000 };

/**
 * The settings for a model and a traffic: every candidate is simulated, those within the budget are compared by what they
 * cost.
 *
 * @throws Error where the model's runs take more memory than a function has, or longer than its timeout
 */
export function settingsFor(question: SettingsQuestion): SettingsAnswer {
  const { trace, messagesPerSecond, budgetMs, prices, messages, host = HOST_COSTS, gpus = [] } = question;
  const perSecond = trace?.perSecond ?? messagesPerSecond;
  const bill = { prices, messages, host, architecture: question.architecture };
  const groups = candidatesFor({ ...question, messagesPerSecond: perSecond });
  const invocations = new Map(groups.map(({ invocation }) => [invocation.memoryMb, invocation]));
  const invocationOf = (memoryMb: number): Invocation => {
    const found = invocations.get(memoryMb);
    if (found === undefined) throw new Error(`expected a memory that was tried, got ${memoryMb} MB`);
    return found;
  };
  const few = trace ?? arrivalsOf(messagesPerSecond, TO_TRY);
  const tried = groups.flatMap(({ invocation, candidates }) =>
    candidates.map((candidate) => expect(candidate, invocation, few, bill)),
  );
  const many = trace ?? arrivalsOf(messagesPerSecond, TO_TELL);
  const again = (one: Expectation): Expectation => expect(one, invocationOf(one.memoryMb), many, bill);
  const best = bestOfEach(tried, budgetMs).map(again);
  const { gain, sureGain } = groups[0]?.invocation.times ?? { gain: 1, sureGain: 1 };
  const choice = choose(best, { gain, sureGain }, budgetMs);
  if (choice === undefined) throw new Error(tooLarge(question));
  const forms = formsOf(choice, invocationOf, gpus, { ...bill, length: question.length });
  return {
    ...choice,
    gain,
    tried: tried.length,
    candidates: best.toSorted((a, b) => a.dollarsPerMillionRows.total - b.dollarsPerMillionRows.total),
    forms: forms.map(({ name, dollarsAt }) => ({ name, dollarsPerMillionRows: dollarsAt?.(many) ?? null })),
    breakEvens: breakEvens(forms),
    curves: formCurves(forms),
  };
}

function arrivalsOf(perSecond: number, { seconds, least, most }: typeof TO_TRY): Arrivals {
  return poissonArrivals(perSecond, Math.ceil(Math.min(most, Math.max(least, perSecond * seconds))));
}

/** Of each batch size and window: the cheapest within the budget, else the one that answers soonest. */
function bestOfEach(tried: readonly Expectation[], budgetMs: number): Expectation[] {
  const groups = Map.groupBy(tried, ({ batchSize, windowSeconds }) => `${batchSize} ${windowSeconds}`);
  return [...groups.values()].map((group) => {
    const within = group.filter(({ p99AgeMs }) => p99AgeMs <= budgetMs);
    const by = within.length > 0 ? costOf : ageOf;
    return (within.length > 0 ? within : group).reduce((best, one) => (by(one) < by(best) ? one : best));
  });
}

const costOf = (one: Expectation): number => one.dollarsPerMillionRows.total;
const ageOf = (one: Expectation): number => one.p99AgeMs;

function tooLarge({ table }: SettingsQuestion): string {
  const bytes = Math.min(...table.map(({ peakRssBytes }) => peakRssBytes));
  const ms = Math.min(...table.map(({ medianMs }) => medianMs));
  return (
    `expected settings of a function that holds the traffic, found none: the smallest run takes ${Math.ceil(ms)} ms and ` +
    `${Math.ceil(bytes / 1024 / 1024)} MB; lower the rate, or spread it over several queues`
  );
}
