import { table } from './table.ts';

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
