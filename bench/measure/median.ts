/** @throws Error when there are no values */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const above = sorted[sorted.length >> 1];
  if (above === undefined) throw new Error('expected values to take the median of, got none');
  return sorted.length % 2 === 1 ? above : ((sorted[(sorted.length >> 1) - 1] as number) + above) / 2;
}
