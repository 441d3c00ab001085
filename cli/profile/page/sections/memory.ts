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
  const mebibytesOf = ({ peakRssBytes }: MeasuredRun): number => peakRssBytes / MIB;
  return figure({
    id: 'memory',
    title: 'Peak memory by rows in a run',
    essence: `${peaksOf(panel?.main ?? [])} The recommended function has ${count(memoryMb)} MB.`,
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

/** Of the fewest and the most rows of ordinary length. */
function peaksOf(runs: readonly MeasuredRun[]): string {
  const [few, many] = [runs[0], runs.at(-1)];
  if (few === undefined || many === undefined) return '';
  const least = `A process that ran ${rowsName(few.rows)} at a time held ${mebibytes(few.peakRssBytes)} at most`;
  return few === many ? `${least}.` : `${least}, with ${rowsName(many.rows)} ${mebibytes(many.peakRssBytes)}.`;
}
