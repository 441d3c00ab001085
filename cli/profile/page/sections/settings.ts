import type { ProfileReport } from '../../report.ts';
import type { Expectation } from '../../settings/expect.ts';
import { lineChart } from '../charts/lineChart.ts';
import { decades, doublings, fromZero } from '../charts/scale.ts';
import { figure } from '../figure.ts';
import { count, data, dollarCell, dollars, dollarTick, duration, percent, sentence } from '../format.ts';
import { html, type Markup } from '../html.ts';
import { distinct } from '../runGroups.ts';
import { table } from '../table.ts';

const MOST_CANDIDATES = 12;

/** What batch sizes and windows come to for the traffic that was asked for. */
export async function settingsSection({ answer, question: { budgetMs }, asked }: ProfileReport): Promise<Markup> {
  const { candidates, chosen, tried } = answer;
  const within = candidates.filter(({ p99AgeMs }) => p99AgeMs <= budgetMs).length;
  const age = figure({
    id: 'age',
    title: 'Age of answers by batch size',
    essence:
      `${count(within)} of the ${count(candidates.length)} pairs of batch size and window answer 99 % within ` +
      `${duration(budgetMs)}. The recommended one (ringed) takes ${duration(chosen.p99AgeMs)}.`,
    chart: (size) =>
      lineChart(
        {
          ...seriesOf(candidates, ({ p99AgeMs }) => p99AgeMs),
          y: decades(
            candidates.map(({ p99AgeMs }) => p99AgeMs),
            'age in milliseconds, 99th percentile',
          ),
          points: [{ x: chosen.batchSize, y: chosen.p99AgeMs, label: 'recommended' }],
          horizontals: [{ at: budgetMs, label: `budget ${duration(budgetMs)}` }],
        },
        size,
      ),
    table: candidateTable('Candidates by age', candidates, chosen),
  });
  const cost = figure({
    id: 'cost-by-batch',
    title: 'Cost by batch size',
    essence: costEssence(answer),
    chart: (size) =>
      lineChart(
        {
          ...seriesOf(candidates, costOf),
          y: fromZero(candidates.map(costOf), 'US dollars for a million rows', dollarTick),
          points: [{ x: chosen.batchSize, y: costOf(chosen), label: 'recommended' }],
        },
        size,
      ),
    table: costTable(candidates, chosen),
  });
  const shown = candidates.slice(0, MOST_CANDIDATES);
  return html`<section id="settings"><h2>Settings for the traffic</h2>
<p>${sentence(asked)}. ${count(tried)} settings were simulated; here is the best of each batch size and window.</p>
<div class="figures">
${[await age, await cost]}</div>
<h3>The cheapest candidates</h3>
<p>The marked row is the recommended one.</p>
${candidateTable('The cheapest candidates', shown.includes(chosen) ? shown : [...shown, chosen], chosen)}</section>
`;
}

function costEssence({ chosen, oneByOne }: ProfileReport['answer']): string {
  const recommended = `The recommended settings (ringed) cost ${dollars(costOf(chosen))} for a million rows`;
  return chosen.batchSize === 1
    ? `${recommended}: one message at a time.`
    : `${recommended}, messages one by one ${dollars(costOf(oneByOne))}.`;
}

function seriesOf(candidates: readonly Expectation[], measure: (one: Expectation) => number) {
  const windows = distinct(candidates.map(({ windowSeconds }) => windowSeconds));
  return {
    x: doublings(candidates, ({ batchSize }) => batchSize, 'batch size'),
    series: windows.map((window) => ({
      name: `window ${window} s`,
      values: candidates
        .filter(({ windowSeconds }) => windowSeconds === window)
        .toSorted((a, b) => a.batchSize - b.batchSize)
        .map((one) => ({ x: one.batchSize, y: measure(one) })),
      isMarked: true,
    })),
  };
}

function candidateTable(caption: string, candidates: readonly Expectation[], chosen: Expectation): Markup {
  const heads = ['batch size', 'window s', 'memory MB', 'concurrency', 'fill', 'p50 age ms', 'p99 age ms', '$/M rows'];
  return table(
    caption,
    heads,
    candidates.map((one) => ({
      isChosen: one === chosen,
      cells: [
        data(one.batchSize, count(one.batchSize)),
        data(one.windowSeconds, count(one.windowSeconds)),
        data(one.memoryMb, count(one.memoryMb)),
        data(one.maximumConcurrency, count(one.maximumConcurrency)),
        data(one.fill, percent(one.fill)),
        data(one.p50AgeMs, count(one.p50AgeMs)),
        data(one.p99AgeMs, count(one.p99AgeMs)),
        data(costOf(one), dollarCell(costOf(one))),
      ],
    })),
  );
}

function costTable(candidates: readonly Expectation[], chosen: Expectation): Markup {
  return table(
    'Cost by batch size and window',
    ['batch size', 'window s', 'compute $', 'invocations $', 'requests $', 'results $', 'idle $', 'total $/M rows'],
    candidates.map((one) => {
      const { compute, invocations, requestQueue, resultQueue, idle, total } = one.dollarsPerMillionRows;
      const parts = [compute, invocations, requestQueue, resultQueue, idle, total];
      return {
        isChosen: one === chosen,
        cells: [
          data(one.batchSize, count(one.batchSize)),
          data(one.windowSeconds, count(one.windowSeconds)),
          ...parts.map((part) => data(part, dollarCell(part))),
        ],
      };
    }),
  );
}

function costOf({ dollarsPerMillionRows }: Expectation): number {
  return dollarsPerMillionRows.total;
}
