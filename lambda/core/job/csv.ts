const QUOTE = '"';

/**
 * The fields of one line of CSV, as RFC 4180 has them: a field may stand in quotes, and then hold commas, and quotes that
 * are doubled. A line is a row: fields hold no line breaks.
 *
 * @returns undefined when a quoted field does not end in the line, or something else than a comma follows it
 * @see https://www.rfc-editor.org/rfc/rfc4180
 */
export function fieldsOf(line: string): string[] | undefined {
  if (!line.includes(QUOTE)) return line.split(',');
  const fields: string[] = [];
  for (let at = 0; at <= line.length; ) {
    if (line[at] !== QUOTE) {
      const comma = line.indexOf(',', at);
      const end = comma < 0 ? line.length : comma;
      fields.push(line.slice(at, end));
      at = end + 1;
      continue;
    }
    const end = endOfQuoted(line, at + 1);
    if (end < 0 || (end + 1 < line.length && line[end + 1] !== ',')) return undefined;
    fields.push(line.slice(at + 1, end).replaceAll('""', QUOTE));
    at = end + 2;
  }
  return fields;
}

/** Where the quote is that ends a field: one that is not doubled. */
function endOfQuoted(line: string, from: number): number {
  for (let at = line.indexOf(QUOTE, from); at >= 0; at = line.indexOf(QUOTE, at + 2)) {
    if (line[at + 1] !== QUOTE) return at;
  }
  return -1;
}
