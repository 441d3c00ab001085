/** The lengths of the first arrays, outermost first, at most `depth` deep. */
export function nestingOf(value: unknown, depth: number): number[] {
  const lengths: number[] = [];
  for (let inner = value; Array.isArray(inner) && lengths.length < depth; inner = inner[0]) lengths.push(inner.length);
  return lengths;
}
