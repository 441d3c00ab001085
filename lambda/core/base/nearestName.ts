const MAX_EDITS = 3;
/** In a name of these many letters one may be wrong: of fewer, any other name would be near. */
const LETTERS_AN_EDIT = 3;

/** The name that a misspelt one most likely stands for, whatever the case: at most three edits away; else undefined. */
export function nearestName(wrong: string, names: readonly string[]): string | undefined {
  const most = Math.min(MAX_EDITS, Math.ceil(wrong.length / LETTERS_AN_EDIT));
  const [nearest] = names
    .map((name) => ({ name, edits: editDistance(wrong.toLowerCase(), name.toLowerCase()) }))
    .filter(({ edits }) => edits <= most)
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
