import { MAXIMUM_CONCURRENCY } from '../../../lambda/core/limits.ts';
import { type Arrivals, poissonArrivals } from './arrivals.ts';
import { concurrencyFor } from './candidates.ts';
import { type Architecture, type Bill, type Dollars, instanceDollars, rowsPerSecond } from './dollars.ts';
import { type Expectation, expect } from './expect.ts';
import type { HostCosts, Invocation } from './invocation.ts';
import { type RunCost, runTimes } from './runTimes.ts';

/** What runs took on a GPU. */
export interface GpuProfile {
  /** EC2 instance type, such as `g5.xlarge`. */
  readonly instanceType: string;
  readonly table: readonly RunCost[];
}

/** A form of compute, and what it costs; undefined where nothing was measured on it. */
export interface Form {
  readonly name: string;
  /** Whether it differs from the first by the price alone: no rate makes it the cheaper one. */
  readonly isAlike?: boolean;
  readonly dollarsAt: ((arrivals: Arrivals) => Dollars) | undefined;
}

type Terms = Omit<Bill, 'messagesPerSecond' | 'maximumConcurrency'>;

/** Of a card: beyond that, messages wait. */
const BUSY_SHARE = 0.8;
const FAMILIES = ['g4dn', 'g5', 'g6', 'g6e'];
const ARCHITECTURES: readonly Architecture[] = ['arm64', 'x86_64'];

/**
 * Lambda with the settings that were chosen, first as the function is deployed; Lambda one message at a time; and each
 * instance type with a GPU.
 */
export function formsOf(
  { chosen, oneByOne }: { readonly chosen: Expectation; readonly oneByOne: Expectation },
  invocationOf: (memoryMb: number) => Invocation,
  gpus: readonly GpuProfile[],
  terms: Terms & { readonly length: number },
): Form[] {
  const lambda = (settings: Expectation, architecture: Architecture) => (arrivals: Arrivals) => {
    const unlimited = { ...settings, maximumConcurrency: concurrencyAt(arrivals, settings, invocationOf) };
    return expect(unlimited, invocationOf(settings.memoryMb), arrivals, { ...terms, architecture })
      .dollarsPerMillionRows;
  };
  const isBatched = chosen.batchSize > 1;
  const [own, other] = ARCHITECTURES.toSorted((a) => (a === terms.architecture ? -1 : 1)) as [
    Architecture,
    Architecture,
  ];
  return [
    { name: `lambda ${own}`, dollarsAt: lambda(chosen, own) },
    ...(isBatched ? [{ name: `lambda ${own}, one by one`, dollarsAt: lambda(oneByOne, own) }] : []),
    { name: `lambda ${other}`, isAlike: true, dollarsAt: lambda(chosen, other) },
    ...gpuTypes(terms.prices).flatMap((type) => gpuForms(type, gpus, chosen, terms)),
  ];
}

/** The setting, or as many as another rate needs. */
function concurrencyAt(
  { perSecond }: Arrivals,
  { batchSize, memoryMb, maximumConcurrency }: Expectation,
  invocationOf: (memoryMb: number) => Invocation,
): number {
  const needed = concurrencyFor(perSecond, invocationOf(memoryMb).msOf(batchSize), batchSize);
  return Math.min(MAXIMUM_CONCURRENCY.most, Math.max(maximumConcurrency, Math.ceil(needed)));
}

function gpuTypes({ instanceHour }: Bill['prices']): string[] {
  return Object.keys(instanceHour).filter((type) => FAMILIES.includes(type.split('.')[0] ?? ''));
}

function gpuForms(
  type: string,
  gpus: readonly GpuProfile[],
  { batchSize }: Expectation,
  terms: Terms & { readonly length: number },
): Form[] {
  const { prices, host, length } = terms;
  const table = gpus.find(({ instanceType }) => instanceType === type)?.table;
  const hourly = (prices.instanceHour[type] as number) * (1 + prices.managedInstancesFeePercent / 100);
  const dollarsAt = (perInvocation: number) =>
    table === undefined
      ? undefined
      : ({ perSecond }: Arrivals) => {
          const bill = { ...terms, messagesPerSecond: perSecond };
          const instances = Math.max(
            1,
            Math.ceil(rowsPerSecond(bill) / gpuRowsPerSecond(table, length, terms.messages, host)),
          );
          return instanceDollars(instances * hourly, perInvocation, batchSize, bill);
        };
  return [
    { name: `lambda-gpu ${type}`, dollarsAt: dollarsAt(prices.lambdaMillionRequests / 1_000_000) },
    { name: `ecs-gpu ${type}`, dollarsAt: dollarsAt(0) },
  ];
}

/** Rows that an instance answers a second: as its card runs them, or as one core of its host decodes and encodes them. */
function gpuRowsPerSecond(
  table: readonly RunCost[],
  length: number,
  { requestsPerMessage }: Terms['messages'],
  { messageMs, requestMs }: HostCosts,
): number {
  const { rowsPerRun, msOf } = runTimes(table, Number.POSITIVE_INFINITY, length);
  const ofCard = (1000 * rowsPerRun) / msOf(rowsPerRun);
  const ofHost = 1000 / (messageMs / requestsPerMessage + requestMs);
  return BUSY_SHARE * Math.min(ofCard, ofHost);
}

/** From this rate on one form is cheaper than another that was cheaper before. */
export interface BreakEven {
  readonly messagesPerSecond: number;
  readonly cheaper: string;
  readonly than: string;
}

/** Ten to each power of ten. */
const RATES = Array.from({ length: 61 }, (_, step) => 10 ** (step / 10 - 2));
const MESSAGES = 1_000;
const BISECTIONS = 8;

/** Less than this is no difference. */
const SAME = 0.01;

/** Where the first form becomes cheaper or dearer than another, between 0.01 and 10,000 messages a second. */
export function breakEvens([first, ...others]: readonly Form[]): BreakEven[] {
  const one = pricedForm(first);
  if (one === undefined) return [];
  return others
    .filter(({ isAlike }) => isAlike !== true)
    .flatMap((other) => crossings(one, pricedForm(other)))
    .toSorted((a, b) => a.messagesPerSecond - b.messagesPerSecond);
}

interface Priced {
  readonly name: string;
  at(rate: number): number;
}

function pricedForm(form: Form | undefined): Priced | undefined {
  const dollarsAt = form?.dollarsAt;
  if (form === undefined || dollarsAt === undefined) return undefined;
  return { name: form.name, at: memoised((rate) => dollarsAt(poissonArrivals(rate, MESSAGES)).total) };
}

function crossings(one: Priced, other: Priced | undefined): BreakEven[] {
  if (other === undefined) return [];
  const cheaperAt = (rate: number): Priced | undefined => {
    const share = one.at(rate) / other.at(rate);
    if (Math.abs(share - 1) < SAME) return undefined;
    return share < 1 ? one : other;
  };
  const found: BreakEven[] = [];
  let before = cheaperAt(RATES[0] as number);
  for (const [index, rate] of RATES.entries()) {
    const cheaper = cheaperAt(rate);
    if (cheaper === undefined || cheaper === before) continue;
    let [low, high] = [RATES[index - 1] as number, rate];
    for (let step = 0; step < BISECTIONS; step++) {
      const middle = Math.sqrt(low * high);
      if (cheaperAt(middle) === cheaper) high = middle;
      else low = middle;
    }
    found.push({ messagesPerSecond: high, cheaper: cheaper.name, than: (cheaper === one ? other : one).name });
    before = cheaper;
  }
  return found;
}

function memoised(compute: (rate: number) => number): (rate: number) => number {
  const known = new Map<number, number>();
  return (rate) => {
    const value = known.get(rate) ?? compute(rate);
    known.set(rate, value);
    return value;
  };
}
