import { lineChart } from '../charts/lineChart.ts';
import { decades, doublings } from '../charts/scale.ts';
import { figure } from '../figure.ts';
import { count, data, figure as digits, duration, milliseconds, percent, sentence } from '../format.ts';
import { html, type Markup } from '../html.ts';
import type { MeasuredRun, PageReport } from '../report.ts';
import { kneeOf, type Panel, panelsOf, rowsName } from '../runGroups.ts';
import { table } from '../table.ts';

/** Rows a second and milliseconds of runs, by their rows, with the knee and the budget. */
export async function runsSection({ measured, question: { budgetMs } }: PageReport): Promise<Markup> {
  const panels = panelsOf(measured);
  const figures = panels.flatMap((panel, index) => [throughput(panel, index + 1), latency(panel, index + 1, budgetMs)]);
  return html`<section id="runs"><h2>What runs give and take</h2>
<div class="figures">
${await Promise.all(figures)}</div></section>
`;
}

function throughput(panel: Panel, number: number): Promise<Markup> {
  return figure({
    id: `throughput-${number}`,
    title: `Throughput by rows in a run${panel.suffix}`,
    essence: sentence(gainOf(panel)),
    chart: (size) => lineChart(chartOf(panel, 'rowsPerSecond', 'rows per second'), size),
    table: tableOf(`Throughput${panel.suffix}`, panel, 'rows/s', ({ rowsPerSecond }) =>
      data(rowsPerSecond, count(rowsPerSecond)),
    ),
  });
}

function latency(panel: Panel, number: number, budgetMs: number): Promise<Markup> {
  const budget = { at: budgetMs, label: `budget: ${duration(budgetMs)}` };
  return figure({
    id: `latency-${number}`,
    title: `Latency by rows in a run${panel.suffix}`,
    essence: sentence(latencyOf(panel, budgetMs)),
    chart: (size) => lineChart({ ...chartOf(panel, 'medianMs', 'milliseconds, median'), horizontals: [budget] }, size),
    table: tableOf(`Latency${panel.suffix}`, panel, 'median ms', ({ medianMs }) => data(medianMs, digits(medianMs))),
  });
}

function gainOf({ main, ofMain }: Panel): string {
  const [knee, first] = [kneeOf(main), main[0]];
  if (knee === undefined || first === undefined) return 'Nothing was measured.';
  const single = `runs of ${rowsName(first.rows)}`;
  if (main.length === 1) return `${ofMain}${single} give ${count(first.rowsPerSecond)} rows/s; no others were timed.`;
  if (knee.rows === first.rows) {
    return `${ofMain}${single} give ${count(first.rowsPerSecond)} rows/s, and larger ones at most 5 % more.`;
  }
  const gain = digits(knee.rowsPerSecond / first.rowsPerSecond);
  return (
    `${ofMain}the knee is at ${rowsName(knee.rows)}: ${count(knee.rowsPerSecond)} rows/s, ${gain} times as many as in ` +
    `${single}. Larger runs give at most 5 % more.`
  );
}

function latencyOf({ main, ofMain, groups }: Panel, budgetMs: number): string {
  const knee = kneeOf(main);
  const slowest = Math.max(...groups.flatMap(({ runs }) => runs.map(({ medianMs }) => medianMs)));
  const at =
    knee === undefined ? '' : `${ofMain}a run of ${rowsName(knee.rows)} takes ${milliseconds(knee.medianMs)}. `;
  const share =
    slowest > budgetMs
      ? `the slowest run here takes ${milliseconds(slowest)}, more than that`
      : `the slowest run here takes ${milliseconds(slowest)} of it`;
  return `${at}The budget of ${duration(budgetMs)} is for a message's whole way: ${share}.`;
}

function chartOf({ groups, main }: Panel, key: 'rowsPerSecond' | 'medianMs', title: string) {
  const runs = groups.flatMap((group) => group.runs);
  const knee = kneeOf(main);
  return {
    x: doublings(runs, ({ rows }) => rows, 'rows in a run'),
    y: decades(
      runs.map((run) => run[key]),
      title,
    ),
    series: groups.map((group) => ({
      name: group.name,
      values: group.runs.map((run) => ({ x: run.rows, y: run[key] })),
      isMarked: true,
    })),
    verticals: knee === undefined ? [] : [{ at: knee.rows, label: `knee: ${rowsName(knee.rows)}` }],
  };
}

function tableOf(caption: string, { groups }: Panel, head: string, cell: (run: MeasuredRun) => Markup): Markup {
  const heads = ['rows', 'length', 'threads', head, 'spread'];
  return table(
    caption,
    heads,
    groups.flatMap(({ runs }) =>
      runs.map((run) => ({
        cells: [
          data(run.rows, count(run.rows)),
          data(run.length, count(run.length)),
          data(run.threads, count(run.threads)),
          cell(run),
          data(run.spread, percent(run.spread)),
        ],
      })),
    ),
  );
}
