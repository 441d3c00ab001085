/** A Markdown table. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

export function microseconds(value: number): string {
  return `${value.toFixed(value < 100 ? 1 : 0)} µs`;
}

/** A figure that must be reached, and whether it was. */
export interface Target {
  readonly target: string;
  readonly figure: string;
  readonly reached: boolean;
}

export function targetTable(targets: readonly Target[]): string {
  return table(
    ['target', 'figure', 'reached'],
    targets.map(({ target, figure, reached }) => [target, figure, reached ? 'yes' : '**no**']),
  );
}
