const GAP = '  ';
/** The last column is not broken into less. */
const LEAST_LAST = 20;

/** Rows of cells in columns as wide as they must be; the last one is wrapped where the width ends. */
export function inColumns(rows: readonly (readonly string[])[], width: number): string {
  const columns = Math.max(...rows.map((cells) => cells.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((cells) => (cells[column] ?? '').length)),
  );
  const before = widths.slice(0, -1).reduce((sum, one) => sum + one + GAP.length, 0);
  const indent = ' '.repeat(before);
  return rows
    .map((cells) => {
      const head = widths.slice(0, -1).map((one, column) => (cells[column] ?? '').padEnd(one) + GAP);
      const last = wrapped(cells[columns - 1] ?? '', Math.max(LEAST_LAST, width - before));
      return `${head.join('')}${last.join(`\n${indent}`)}`.replace(/ +$/gm, '');
    })
    .join('\n');
}

/** Lines of whole words; a word that is longer has a line of its own. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
