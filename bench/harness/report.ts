import { figure } from '../../cli/format.ts';

/** Column heads, each with the function that formats a row's cell. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => string>>;

export function table<Row>(rows: readonly Row[], columns: Columns<Row>): string {
  const heads = Object.keys(columns);
  const lines = rows.map((row) => Object.values(columns).map((cell) => cell(row)));
  return [heads, heads.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Formats a figure with its minimum. If the figure is lower, it is bold and followed by the minimum. */
export function atLeast(min: number | undefined, value: number, unit = ''): string {
  const text = `${figure(value)}${unit}`;
  return min === undefined || value >= min ? text : `**${text}** (at least ${min}${unit})`;
}

export function atMost(max: number | undefined, value: number, unit = ''): string {
  const text = `${figure(value)}${unit}`;
  return max === undefined || value <= max ? text : `**${text}** (at most ${max}${unit})`;
}
