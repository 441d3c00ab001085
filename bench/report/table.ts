/** A Markdown table. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

export function microseconds(value: number): string {
  return `${value.toFixed(value < 100 ? 1 : 0)} µs`;
}
