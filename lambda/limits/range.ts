/** What a number may be, both ends included. */
export interface Range {
  readonly least: number;
  readonly most: number;
}

/** What such a number is called in messages. */
export function wholeNumberIn({ least, most }: Range): string {
  return `a whole number from ${least} to ${most}`;
}

/** What is wrong with a number that must be whole and within a range. An undefined one is left to its default. */
export function outside(name: string, value: number | undefined, range: Range): string | undefined {
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && value >= range.least && value <= range.most) return undefined;
  return `${name}: expected ${wholeNumberIn(range)}, got ${value}; choose one in that range`;
}
