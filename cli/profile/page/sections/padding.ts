import type { ProfileReport } from '../../report.ts';
import { lineChart } from '../charts/lineChart.ts';
import { decades, doublings } from '../charts/scale.ts';
import { figure } from '../figure.ts';
import { count, data, figure as digits } from '../format.ts';
import { html, type Markup } from '../html.ts';
import type { MeasuredRun } from '../runGroups.ts';
import { distinct, panelsOf, rowsName } from '../runGroups.ts';
import { table } from '../table.ts';

/** What a row takes at each length that it may be padded to. */
export async function paddingSection({ measured }: ProfileReport): Promise<Markup> {
  const lengths = distinct(measured.table.map(({ length }) => length));
  if (lengths.length < 2) {
    return html`<section id="padding"><h2>Padding</h2>
<p>Rows have one length, so none is padded to another's.</p></section>
`;
  }
  const rows = panelsOf(measured)[0]?.knee.rows ?? 1;
  const runs = atEachLength(measured.table, measured.threads, rows);
  const [shortest, longest] = [runs[0], runs.at(-1)] as [MeasuredRun, MeasuredRun];
  const times = digits(msPerRow(longest) / msPerRow(shortest));
  const inProportion = runs.map(({ length }) => ({ x: length, y: (msPerRow(shortest) * length) / shortest.length }));
  const values = runs.map((run) => ({ x: run.length, y: msPerRow(run) }));
  const chart = await figure({
    id: 'padding-figure',
    title: 'What a row takes, by the length it is padded to',
    essence:
      `A row of length ${shortest.length} that is padded to ${longest.length} takes ${times} times as long as in a run ` +
      `of its own length (runs of ${rowsName(rows)}, or the most that were run).`,
    chart: (size) =>
      lineChart(
        {
          x: doublings(lengths, (length) => length, 'length'),
          y: decades(
            [...values, ...inProportion].map(({ y }) => y),
            'milliseconds a row',
          ),
          series: [
            { name: 'measured', values, isMarked: true },
            { name: 'in proportion', values: inProportion, isMarked: false, isReference: true },
          ],
        },
        size,
      ),
    table: table(
      'Runs by length',
      ['length', 'rows', 'median ms', 'rows/s'],
      runs.map((run) => ({
        cells: [
          data(run.length, count(run.length)),
          data(run.rows, count(run.rows)),
          data(run.medianMs, digits(run.medianMs)),
          data(run.rowsPerSecond, digits(run.rowsPerSecond)),
        ],
      })),
    ),
  });
  return html`<section id="padding"><h2>Padding</h2>
<div class="figures">
${chart}</div></section>
`;
}

/** Of each length the run of so many rows, or of the most that were run. */
function atEachLength(runs: readonly MeasuredRun[], threads: number, rows: number): MeasuredRun[] {
  const own = runs.filter((run) => run.threads === threads && run.rows <= rows);
  return [...Map.groupBy(own, ({ length }) => length).values()]
    .map((group) => group.reduce((most, run) => (run.rows > most.rows ? run : most)))
    .toSorted((a, b) => a.length - b.length);
}

function msPerRow({ medianMs, rows }: MeasuredRun): number {
  return medianMs / rows;
}
