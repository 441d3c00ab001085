import type { ProfileReport } from '../../report.ts';
import { lineChart } from '../charts/lineChart.ts';
import { decades } from '../charts/scale.ts';
import { figure } from '../figure.ts';
import { count, data, figure as digits, dollarCell, dollars, dollarTick, short } from '../format.ts';
import { html, type Markup } from '../html.ts';
import { table } from '../table.ts';

/** What forms of compute cost at other rates, and where one becomes cheaper than another. */
export async function costsSection(report: ProfileReport): Promise<Markup> {
  const { answer } = report;
  const unmeasured = answer.forms
    .filter((form) => form.dollarsPerMillionRows === null)
    .map(({ name }) => instanceOf(name));
  return html`<section id="cost"><h2>Cost on other forms of compute</h2>
<div class="figures wide">
${answer.curves.length > 0 ? await curveFigure(report) : undefined}<div>
<h3>Break-even points</h3>
${breakEvenList(report)}
<p class="aside">Batch size, window and memory are the recommended ones at every rate; concurrency grows as it must, and no budget is looked at.</p>
</div></div>
<h3>A million rows at the traffic that was asked for</h3>
${formTable(report)}${unmeasured.length > 0 ? html`<p class="aside">Nothing was measured on instances with a GPU (${[...new Set(unmeasured)].join(', ')}): without a profile taken there, <code>--gpu-profile</code>, they have no price.</p>` : undefined}</section>
`;
}

/** `g5.xlarge` of `ecs-gpu g5.xlarge`. */
function instanceOf(form: string): string {
  return form.split(' ').at(-1) ?? form;
}

function curveFigure({ answer, question: { messagesPerSecond } }: ProfileReport): Promise<Markup> {
  const { curves } = answer;
  const rates = curves.flatMap(({ points }) => points.map((point) => point.messagesPerSecond));
  const x = decades(rates, 'messages a second');
  const isShown = messagesPerSecond >= x.domain[0] && messagesPerSecond <= x.domain[1];
  return figure({
    id: 'cost-by-rate',
    title: 'Cost by arrival rate',
    essence: curveEssence(answer),
    chart: (size) =>
      lineChart(
        {
          x,
          y: decades(
            curves.flatMap(({ points }) => points.map((point) => point.dollarsPerMillionRows)),
            'US dollars for a million rows',
            dollarTick,
          ),
          series: curves.map(({ name, points }) => ({
            name: name.replace(/^lambda (?!gpu)/, ''),
            values: points.map((point) => ({ x: point.messagesPerSecond, y: point.dollarsPerMillionRows })),
            isMarked: false,
          })),
          verticals: isShown ? [{ at: messagesPerSecond, label: `asked: ${rateOf(messagesPerSecond)}` }] : [],
          points: answer.breakEvens.map(({ messagesPerSecond: rate, cheaper }) => ({
            x: rate,
            y: costAt(curves.find(({ name }) => name === cheaper)?.points ?? [], rate),
            label: rateOf(rate),
          })),
        },
        size,
      ),
    table: table(
      'Cost by arrival rate, US dollars for a million rows',
      ['messages/s', ...curves.map(({ name }) => name)],
      (curves[0]?.points ?? []).map((point, index) => ({
        cells: [
          data(point.messagesPerSecond, digits(point.messagesPerSecond)),
          ...curves.map(({ points }) => {
            const cost = points[index]?.dollarsPerMillionRows ?? Number.NaN;
            return data(cost, dollarCell(cost));
          }),
        ],
      })),
    ),
  });
}

function curveEssence({ curves, breakEvens }: ProfileReport['answer']): string {
  const [own] = curves;
  const [rare, busy] = [own?.points[0], own?.points.at(-1)];
  if (own === undefined || rare === undefined || busy === undefined) return 'Nothing has a price.';
  const falls =
    `On ${own.name} a million rows cost ${dollars(rare.dollarsPerMillionRows)} at ${short(rare.messagesPerSecond)} ` +
    `messages/s and ${dollars(busy.dollarsPerMillionRows)} at ${short(busy.messagesPerSecond)}.`;
  return breakEvens.length === 0 ? falls : `${falls} Rings are break-even points.`;
}

function breakEvenList({ answer: { breakEvens, curves } }: ProfileReport): Markup {
  if (breakEvens.length === 0) {
    return html`<p>${curves.length > 1 ? 'None: between 0.01 and 10,000 messages/s no form becomes cheaper than the recommended one, or dearer.' : 'None: one form alone has a price.'}</p>`;
  }
  const items = breakEvens.map(
    ({ messagesPerSecond, cheaper, than }) =>
      html`<li>From <strong>${rateOf(messagesPerSecond)}</strong> on, ${cheaper} is cheaper than ${than}.</li>`,
  );
  return html`<ul>${items}</ul>`;
}

function formTable({ answer: { forms } }: ProfileReport): Markup {
  return table(
    'Forms of compute, US dollars for a million rows',
    [{ head: 'form', isText: true }, 'compute', 'invocations', 'requests', 'results', 'idle', 'total'],
    forms.flatMap(({ name, dollarsPerMillionRows: of }) => {
      if (of === null) return [];
      const parts = [of.compute, of.invocations, of.requestQueue, of.resultQueue, of.idle, of.total];
      return [{ cells: [name, ...parts.map((part) => data(part, dollarCell(part)))] }];
    }),
  );
}

type Points = ProfileReport['answer']['curves'][number]['points'];

/** Between two points of the curve, straight on log axes. */
function costAt(points: Points, rate: number): number {
  const after = points.findIndex((point) => point.messagesPerSecond >= rate);
  const [low, high] = [points[Math.max(0, after - 1)], points[Math.max(0, after)]];
  if (low === undefined || high === undefined) return 1;
  if (low === high) return low.dollarsPerMillionRows;
  const share = Math.log(rate / low.messagesPerSecond) / Math.log(high.messagesPerSecond / low.messagesPerSecond);
  return low.dollarsPerMillionRows * (high.dollarsPerMillionRows / low.dollarsPerMillionRows) ** share;
}

function rateOf(messagesPerSecond: number): string {
  const digitsThatCount = Number(messagesPerSecond.toPrecision(2));
  return `${digitsThatCount >= 1000 ? count(digitsThatCount) : digitsThatCount}/s`;
}
