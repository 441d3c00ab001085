/** What a number may be, both ends included. */
export interface Range {
  readonly least: number;
  readonly most: number;
}

/** What is wrong with a number that must be whole and within a range. An undefined one is left to its default. */
export function outside(name: string, value: number | undefined, { least, most }: Range): string | undefined {
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && value >= least && value <= most) return undefined;
  return `${name}: expected a whole number from ${least} to ${most}, got ${value}; choose one in that range`;
}
