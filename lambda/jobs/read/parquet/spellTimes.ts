import type { ParquetParsers } from 'hyparquet';

type TimeParsers = Pick<
  ParquetParsers,
  'dateFromDays' | 'timestampFromMilliseconds' | 'timestampFromMicroseconds' | 'timestampFromNanoseconds'
>;

/**
 * Dates and moments in ISO 8601, `2026-11-22` and `2026-11-22T13:22:09.000123Z`, with as many digits as a moment needs. One
 * that no calendar has is left as the number that it is.
 *
 * @param isUtc whether moments are UTC; those of no zone have no `Z`
 */
export function spellTimes(isUtc: boolean): TimeParsers {
  const end = isUtc ? 'Z' : '';
  return {
    dateFromDays: (days) => isoOf(BigInt(days) * MS_A_DAY)?.slice(0, -'T00:00:00.000Z'.length) ?? days,
    timestampFromMilliseconds: (ms) => spellMoment(BigInt(ms), 0, end),
    timestampFromMicroseconds: (us) => spellMoment(BigInt(us), 3, end),
    timestampFromNanoseconds: (ns) => spellMoment(BigInt(ns), 6, end),
  };
}

const MS_A_DAY = 86_400_000n;

/** @param digits that a tick is smaller than a millisecond by */
function spellMoment(ticks: bigint, digits: number, end: string): string | bigint {
  const ticksAMs = 10n ** BigInt(digits);
  const rest = ((ticks % ticksAMs) + ticksAMs) % ticksAMs;
  const iso = isoOf((ticks - rest) / ticksAMs);
  if (iso === undefined) return ticks;
  const fraction = digits === 0 ? '' : String(rest).padStart(digits, '0');
  return `${iso.slice(0, -1)}${fraction}`.replace(/\.?0+$/, '') + end;
}

function isoOf(ms: bigint): string | undefined {
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}
