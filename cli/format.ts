/** Formats numbers, times and dollars for terminals and pages. It also runs in browsers, so it imports nothing. */

const WHOLE = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const DIGITS = { maximumSignificantDigits: 3, maximumFractionDigits: 0, roundingPriority: 'morePrecision' } as const;
const FIGURE = new Intl.NumberFormat('en-US', DIGITS);
const USD = { style: 'currency', currency: 'USD' } as const;
const DOLLARS = new Intl.NumberFormat('en-US', { ...USD, maximumFractionDigits: 0 });
const CENTS = new Intl.NumberFormat('en-US', USD);
const PARTS_OF_CENTS = new Intl.NumberFormat('en-US', { ...USD, maximumSignificantDigits: 3 });
const SHORT = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });

/** Formats a number with separators, such as 12,345. */
export function count(value: number): string {
  return WHOLE.format(value);
}

/** Formats with three significant digits and all integer digits: 0.0312, 3.12, 312, 3,120. */
export function figure(value: number): string {
  return FIGURE.format(value);
}

/** Formats for axes: 0.01, 1, 10, 1K, 10K, 1M. */
export function short(value: number): string {
  return SHORT.format(value);
}

/** Formats a percentage, such as 9.71 % or 97.1 %. @param share share from 0 to 1 */
export function percent(share: number): string {
  return `${FIGURE.format(100 * share)} %`;
}

/** Formats dollars, such as $1,234, $12.30 or $0.0123. */
export function dollars(value: number): string {
  if (value >= 1000) return DOLLARS.format(value);
  return (value >= 0.1 || value === 0 ? CENTS : PARTS_OF_CENTS).format(value);
}

/** Formats a duration, such as 12.3 ms, 4.5 s, 12 min or 3.4 h. */
export function duration(ms: number): string {
  if (ms < 1000) return `${figure(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 100) return `${figure(seconds)} s`;
  return seconds < 6000 ? `${figure(seconds / 60)} min` : `${figure(seconds / 3600)} h`;
}

/** Formats a duration that exceeds a limit. If both would read the same, it has more digits. */
export function durationOver(ms: number, limitMs: number): string {
  return duration(ms) === duration(limitMs) ? `${count(Math.ceil(ms))} ms` : duration(ms);
}

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

export function size(bytes: number): string {
  const unit = Math.max(0, Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10)));
  return `${figure(bytes / 1024 ** unit)} ${UNITS[unit]}`;
}

/** Adds a capital first letter and a full stop. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`.replace(/\.?$/, '.');
}
