/** Between a number and its unit: a line is not broken there. */
const SPACE = '\u00a0';

/**
 * 12,345
 *
 * @param {number} value
 */
export function count(value) {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

/**
 * Three digits that count, and all before the point.
 *
 * @param {number} value
 */
export function figure(value) {
  if (value === 0 || Math.abs(value) >= 100) return count(value);
  const decimals = Math.min(3, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString('en-US', { maximumFractionDigits: decimals });
}

/**
 * Seconds where milliseconds would be long.
 *
 * @param {number} ms
 */
export function duration(ms) {
  return ms < 1000 ? `${figure(ms)}${SPACE}ms` : `${figure(ms / 1000)}${SPACE}s`;
}

/**
 * @param {number} share from 0 to 1
 */
export function percent(share) {
  return `${figure(100 * share)}${SPACE}%`;
}

/**
 * @param {number} many
 * @param {string} one
 * @param {string} [more]
 */
export function things(many, one, more = `${one}s`) {
  return `${count(many)} ${many === 1 ? one : more}`;
}

/**
 * The time of day.
 *
 * @param {number} at milliseconds since 1970
 */
export function timeOf(at) {
  return new Date(at).toLocaleTimeString('en-GB');
}
