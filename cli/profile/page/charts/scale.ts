import { count, short } from '../format.ts';

/** An axis, from what value to what. */
export interface Scale {
  readonly kind: 'log' | 'linear';
  readonly domain: readonly [from: number, to: number];
  readonly ticks: readonly number[];
  readonly title: string;
  readonly format: (value: number) => string;
}

const MOST_TICKS = 6;
const DECADE = 10;
/** A log axis shorter than that says more with its first digits than with powers of ten. */
const SHORT_DECADES = 1.6;

/** Powers of ten around the values. */
export function decades(values: readonly number[], title: string, format: (value: number) => string = short): Scale {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const isShort = Math.log10(most / least) < SHORT_DECADES;
  const from = isShort ? below(least) : DECADE ** Math.floor(Math.log10(least) + EPSILON);
  const to = isShort ? above(most) : DECADE ** Math.ceil(Math.log10(most) - EPSILON);
  const powers = powersBetween(DECADE, from, to);
  const ticks = isShort ? steps(from, to) : thinned(powers);
  return { kind: 'log', domain: [from, to === from ? from * DECADE : to], ticks, title, format };
}

/** Each of the values, or every second, third, … where they are many: row counts double. */
export function doublings<One>(ones: readonly One[], of: (one: One) => number, title: string): Scale {
  const own = [...new Set(ones.map(of))].toSorted((a, b) => a - b);
  const [from, to] = [own[0] ?? 1, own.at(-1) ?? 1];
  return { kind: 'log', domain: [from, to === from ? 2 * from : to], ticks: thinned(own), title, format: count };
}

/** From zero on, with even steps. */
export function fromZero(values: readonly number[], title: string, format: (value: number) => string = short): Scale {
  const most = Math.max(...values);
  const rough = most / (MOST_TICKS - 1);
  const power = DECADE ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((multiple) => multiple * power >= rough) ?? 10) * power;
  const ticks = Array.from({ length: Math.ceil(most / step - EPSILON) + 1 }, (_, index) => index * step);
  return { kind: 'linear', domain: [0, ticks.at(-1) ?? 1], ticks, title, format };
}

/** Where a value stands, from 0 to 1. */
export function positionOf({ kind, domain: [from, to] }: Scale, value: number): number {
  return kind === 'log' ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
}

const EPSILON = 1e-9;
const FIRST_DIGITS = [1, 2, 5];

function steps(from: number, to: number): number[] {
  return powersBetween(DECADE, from / DECADE, to)
    .flatMap((power) => FIRST_DIGITS.map((digit) => rounded(digit * power)))
    .filter((value) => value >= from * (1 - EPSILON) && value <= to * (1 + EPSILON));
}

function below(value: number): number {
  return steps(value / DECADE, value * (1 + EPSILON)).at(-1) ?? value;
}

function above(value: number): number {
  return steps(value * (1 - EPSILON), value * DECADE)[0] ?? value;
}

function powersBetween(base: number, from: number, to: number): number[] {
  const first = Math.ceil(Math.log(from) / Math.log(base) - EPSILON);
  const last = Math.floor(Math.log(to) / Math.log(base) + EPSILON);
  return Array.from({ length: last - first + 1 }, (_, index) => rounded(base ** (first + index)));
}

function thinned(ticks: readonly number[]): number[] {
  const every = Math.ceil(ticks.length / MOST_TICKS);
  return ticks.filter((_, index) => index % every === 0);
}

function rounded(value: number): number {
  return Number(value.toPrecision(6));
}
