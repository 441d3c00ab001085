import type { ProfileReport } from '../../report.ts';
import { lineChart } from '../charts/lineChart.ts';
import { decades, doublings } from '../charts/scale.ts';
import { figure } from '../figure.ts';
import { count, data, figure as digits, duration, milliseconds, percent, sentence } from '../format.ts';
import { html, type Markup } from '../html.ts';
import type { MeasuredRun } from '../runGroups.ts';
import { type Panel, panelsOf, rowsName } from '../runGroups.ts';
import { table } from '../table.ts';

/** Rows a second and milliseconds of runs, by their rows, with the knee and the budget. */
export async function runsSection({ measured, question: { budgetMs } }: ProfileReport): Promise<Markup> {
  const figures = panelsOf(measured).map(async (panel, index) => {
    return html`<div class="figures">
${await throughput(panel, index + 1)}${await latency(panel, index + 1, budgetMs)}</div>
`;
  });
  const [deployed, ...others] = await Promise.all(figures);
  const rest =
    others.length === 0
      ? undefined
      : html`<details class="more"><summary>With other numbers of threads than are deployed</summary>
${others}</details>
`;
  return html`<section id="runs"><h2>What runs give and take</h2>
${deployed}${rest}</section>
`;
}

function throughput(panel: Panel, number: number): Promise<Markup> {
  return figure({
    id: `throughput-${number}`,
    title: `Throughput by rows in a run${panel.suffix}`,
    essence: sentence(gainOf(panel)),
    chart: (size) => lineChart(chartOf(panel, 'rowsPerSecond', 'rows per second'), size),
    table: tableOf(`Throughput${panel.suffix}`, panel, 'rows/s', ({ rowsPerSecond }) =>
      data(rowsPerSecond, digits(rowsPerSecond)),
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

function gainOf({ main, ofMain, knee }: Panel): string {
  const [first = knee] = main;
  const single = `runs of ${rowsName(first.rows)}`;
  const rate = `${digits(knee.rowsPerSecond)} rows/s`;
  if (main.length === 1) return `${ofMain}${single} give ${rate}; no others were timed.`;
  if (knee === first) return `${ofMain}${single} give ${rate}, at least 95 % of the most there are.`;
  const gain = digits(knee.rowsPerSecond / first.rowsPerSecond);
  return (
    `${ofMain}the knee is at ${rowsName(knee.rows)}: ${rate}, ${gain} times as many as in ${single}, and at least 95 % of ` +
    'the most there are.'
  );
}

function latencyOf({ ofMain, groups, knee }: Panel, budgetMs: number): string {
  const slowest = Math.max(...groups.flatMap(({ runs }) => runs.map(({ medianMs }) => medianMs)));
  const isMore = slowest > budgetMs ? ', more than that' : ' of it';
  return (
    `${ofMain}a run of ${rowsName(knee.rows)} takes ${milliseconds(knee.medianMs)}. The budget of ${duration(budgetMs)} is ` +
    `for a message's whole way: the slowest run here takes ${milliseconds(slowest)}${isMore}.`
  );
}

function chartOf({ groups, knee }: Panel, key: 'rowsPerSecond' | 'medianMs', title: string) {
  const runs = groups.flatMap((group) => group.runs);
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
    verticals: [{ at: knee.rows, label: `knee: ${rowsName(knee.rows)}` }],
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
