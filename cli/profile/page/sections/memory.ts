import type { ProfileReport } from '../../report.ts';
import { lineChart } from '../charts/lineChart.ts';
import { doublings, fromZero } from '../charts/scale.ts';
import { figure } from '../figure.ts';
import { count, data, mebibytes } from '../format.ts';
import type { Markup } from '../html.ts';
import { type MeasuredRun, panelsOf, rowsName } from '../runGroups.ts';
import { table } from '../table.ts';

const MIB = 1024 * 1024;

/** The most memory of processes, by the rows that they ran, as deployed. */
export function memoryFigure({ measured, recommendation: { memoryMb } }: ProfileReport): Promise<Markup> {
  const [panel] = panelsOf(measured);
  const groups = (panel?.groups ?? []).filter(({ runs }) => runs.some(({ threads }) => threads === measured.threads));
  const runs = groups.flatMap((group) => group.runs);
  const [few, many] = [panel?.main[0], runs.at(-1)];
  const mebibytesOf = ({ peakRssBytes }: MeasuredRun): number => peakRssBytes / MIB;
  return figure({
    id: 'memory',
    title: 'Peak memory by rows in a run',
    essence:
      `A process that ran ${rowsName(few?.rows ?? 0)} at a time held ${mebibytes(few?.peakRssBytes ?? 0)} at most, with ` +
      `${rowsName(many?.rows ?? 0)} ${mebibytes(many?.peakRssBytes ?? 0)}. The recommended function has ${count(memoryMb)} MB.`,
    chart: (size) =>
      lineChart(
        {
          x: doublings(runs, ({ rows }) => rows, 'rows in a run'),
          y: fromZero(runs.map(mebibytesOf), 'MiB, peak of the process'),
          series: groups.map((group) => ({
            name: group.name,
            values: group.runs.map((run) => ({ x: run.rows, y: mebibytesOf(run) })),
            isMarked: true,
          })),
          horizontals: [{ at: memoryMb, label: `function: ${count(memoryMb)} MB` }],
        },
        size,
      ),
    table: table(
      'Peak memory',
      ['rows', 'length', 'threads', 'peak MiB'],
      runs.map((run) => ({
        cells: [
          data(run.rows, count(run.rows)),
          data(run.length, count(run.length)),
          data(run.threads, count(run.threads)),
          data(run.peakRssBytes, count(mebibytesOf(run))),
        ],
      })),
    ),
  });
}
