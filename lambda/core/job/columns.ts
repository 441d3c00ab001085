/** Columns that one range may name: more is a mistake. */
const MOST_COLUMNS = 100_000;

/**
 * Names of columns, with each range spelled out: `p0..p63` is p0, p1 and so on until p63, `p00..p63` has two digits.
 *
 * @throws Error when a range is none, or runs backwards
 */
export function expandColumns(names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const [, prefix = '', first, again, last] = /^(.*?)(\d+)\.\.(.*?)(\d+)$/.exec(name) ?? [];
    if (first === undefined || last === undefined) return [name];
    const [from, to] = [Number(first), Number(last)];
    if (prefix !== again || to < from || to - from >= MOST_COLUMNS) {
      throw new Error(`columns: expected a range such as ${prefix}0..${prefix}63, got '${name}'`);
    }
    const width = first.startsWith('0') ? first.length : 0;
    return Array.from({ length: to - from + 1 }, (_, index) => `${prefix}${String(from + index).padStart(width, '0')}`);
  });
}
