const MAX_EDITS = 3;

/** The name that a misspelt one most likely stands for: at most three edits away, whatever the case; else undefined. */
export function nearestName(wrong: string, names: readonly string[]): string | undefined {
  const [nearest] = names
    .map((name) => ({ name, edits: editDistance(wrong.toLowerCase(), name.toLowerCase()) }))
    .filter(({ edits }) => edits <= MAX_EDITS)
    .toSorted((a, b) => a.edits - b.edits);
  return nearest?.name;
}

/** The number of letters to insert, delete or replace. @see https://en.wikipedia.org/wiki/Levenshtein_distance */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...a].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (row[column - 1] ?? 0) + (letter === b[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
