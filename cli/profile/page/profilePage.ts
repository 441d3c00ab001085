import type { Measurement } from '../measure/measureModel.ts';
import { kneeOf, type ProfileReport } from '../profileReport.ts';
import type { Expectation } from '../settings/chooseSettings.ts';
import { decades, doublings, figure, fromZero, lineChart, stepsChart } from './charts.ts';
import {
  type Content,
  count,
  data,
  figure as digits,
  dollarCell,
  dollars,
  dollarTick,
  duration,
  html,
  type Markup,
  mebibytes,
  milliseconds,
  percent,
  STYLES,
  sentence,
  short,
  table,
} from './markup.ts';

/**
 * A profile as one HTML file, which holds all that it needs: no script, no font and nothing else is fetched.
 *
 * The file is long because the page is: one function a section, in the order of the page, each with its charts. None is of
 * use to another module.
 *
 * @returns the file's content
 */
export async function renderPage(report: ProfileReport): Promise<string> {
  const { model, version, date, machine } = report.measured;
  const findings = findingsSection(report);
  const process = html`<section id="process"><h2>What a process takes</h2>
<div class="figures">
${await memoryFigure(report)}${await coldStartFigure(report)}</div></section>
`;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Profile of ${model}, version ${version}</title>
<style>${STYLES}</style>
</head>
<body>
<a class="skip" href="#recommendation">To the recommendation</a>
<header>
<p class="kind">batchscore profile</p>
<h1>${model} <span class="version">version ${version}</span></h1>
<p class="aside">Measured on ${dateOf(date)}, ${machine.cores} ${machine.cores === 1 ? 'core' : 'cores'} of ${machine.cpu}</p>
</header>
${contentsOf(findings !== undefined)}
<main>
${recommendationSection(report)}${findings}${await runsSection(report)}${await paddingSection(report)}${process}${await settingsSection(report)}${await costsSection(report)}${aboutSection(report)}</main>
<footer><p>Written by <code>batchscore profile</code>, beside profile.json, which holds what was measured.</p></footer>
</body>
</html>
`;
  return page.text;
}

function contentsOf(hasFindings: boolean): Markup {
  const links: readonly Content[] = [
    link('recommendation', 'Recommendation'),
    hasFindings ? link('findings', 'Findings') : undefined,
    link('runs', 'Runs'),
    link('padding', 'Padding'),
    link('process', 'Memory and start'),
    link('settings', 'Settings'),
    link('cost', 'Cost'),
    link('about', 'Basis'),
  ];
  return html`<nav aria-label="Sections"><ul>${links}</ul></nav>`;
}

function link(id: string, name: string): Markup {
  return html`<li><a href="#${id}">${name}</a></li>`;
}

/** What to do, why, what it comes to, and whether rows may share runs: all that most readers need. */
function recommendationSection(report: ProfileReport): Markup {
  const { recommendation, measured } = report;
  const { mark, title, explanation } = verdictOf(measured.safety);
  return html`<section id="recommendation"><h2>Recommendation</h2>
<p class="lead">${headline(recommendation)}</p>
<p>${sentence(recommendation.reason)}.</p>
<dl class="facts">
${factsOf(report).map(
  ([name, value, more]) => html`<div><dt>${name}</dt><dd><strong>${value}</strong> ${more}</dd></div>
`,
)}</dl>
<div class="pair">
<div class="verdict"><span class="sign" aria-hidden="true">${mark}</span><div><h3>${title}</h3><p>${explanation}</p></div></div>
<div><h3>For cdk.json</h3>
<pre tabindex="0" role="region" aria-label="Fragment for cdk.json"><code>${JSON.stringify({ context: recommendation.context }, null, 2)}</code></pre>
<p class="aside"><code>batchscore profile --apply</code> writes it there.</p></div>
</div></section>
`;
}

function headline({ batchSize, windowSeconds }: ProfileReport['recommendation']): string {
  if (batchSize === 1) return 'Do not batch: hand over one message at a time.';
  const wait =
    windowSeconds === 0 ? 'without waiting for them' : `wait ${duration(1000 * windowSeconds)} for them at most`;
  return `Hand over up to ${count(batchSize)} messages at a time; ${wait}.`;
}

function factsOf({
  answer: { chosen, oneByOne },
  recommendation,
  question,
}: ProfileReport): [string, string, Content][] {
  const { batchSize, memoryMb, maximumConcurrency, maxBatchRows, dollarsPerMillionRows } = recommendation;
  const single = dollars(oneByOne.dollarsPerMillionRows.total);
  return [
    ['Cost', dollars(dollarsPerMillionRows), `a million rows${batchSize === 1 ? '' : `; one by one ${single}`}`],
    ['99 % answered within', duration(chosen.p99AgeMs), `of the budget of ${duration(question.budgetMs)}`],
    [
      'Messages an invocation',
      chosen.messagesPerInvocation.toFixed(1),
      `on average, ${percent(chosen.fill)} of the batch size`,
    ],
    [
      'Function',
      `${count(memoryMb)} MB`,
      `up to ${count(maximumConcurrency)} at a time, ${rowsName(maxBatchRows)} a run at most`,
    ],
  ];
}

export interface Verdict {
  /** Stands beside the title, which says the same in words. */
  readonly mark: string;
  readonly title: string;
  readonly explanation: string;
}

/** Whether rows may share runs, in words. */
export function verdictOf({ verdict, maxDifference, probes }: ProfileReport['measured']['safety']): Verdict {
  const [mark, title, why] = VERDICTS[verdict];
  const tried =
    probes > 0 ? ` ${count(probes)} ${probes === 1 ? 'row was' : 'rows were'} run alone and in company.` : '';
  const difference =
    maxDifference === null
      ? ''
      : ` Their answers ${maxDifference === 0 ? 'did not differ' : `differed by ${maxDifference.toExponential(1)} of their size at most`}.`;
  return { mark, title, explanation: why + tried + difference };
}

const VERDICTS: Readonly<Record<ProfileReport['measured']['safety']['verdict'], readonly [string, string, string]>> = {
  independent: ['✓', 'Rows are independent', 'A row is answered the same whichever rows share its run.'],
  trusted: ['!', 'Rows share runs unchecked', 'config.json says that they may; nothing was compared.'],
  unknown: ['?', 'Whether rows are independent is unknown', 'They run alone until requests have proved it.'],
  dependent: ['✕', 'Rows depend on each other', 'A row was answered otherwise in company, so rows run alone.'],
  alone: ['!', 'Rows run alone', 'config.json says so.'],
};

const MAX_CANDIDATES = 12;

/** What batch sizes and windows come to for the traffic that was asked for. */
async function settingsSection({ answer, question: { budgetMs }, asked }: ProfileReport): Promise<Markup> {
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
  const shown = candidates.slice(0, MAX_CANDIDATES);
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

/** Rows a second and milliseconds of runs, by their rows, with the knee and the budget. */
async function runsSection({ measured, question: { budgetMs } }: ProfileReport): Promise<Markup> {
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

/** What a row takes at each length that it may be padded to. */
async function paddingSection({ measured }: ProfileReport): Promise<Markup> {
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
    .map((group) => group.reduce((max, run) => (run.rows > max.rows ? run : max)))
    .toSorted((a, b) => a.length - b.length);
}

function msPerRow({ medianMs, rows }: MeasuredRun): number {
  return medianMs / rows;
}

const MIB = 1024 * 1024;

/** The most memory of processes, by the rows that they ran, as deployed. */
function memoryFigure({ measured, recommendation: { memoryMb } }: ProfileReport): Promise<Markup> {
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
  const min = `A process that ran ${rowsName(few.rows)} at a time held ${mebibytes(few.peakRssBytes)} at most`;
  return few === many ? `${min}.` : `${min}, with ${rowsName(many.rows)} ${mebibytes(many.peakRssBytes)}.`;
}

const STEPS = [
  ['processMs', 'process'],
  ['libraryMs', 'ONNX Runtime'],
  ['loadMs', 'model'],
  ['warmUpMs', 'warm-up, checks'],
] as const;

/** What the start of a process took, step by step. */
function coldStartFigure({ measured: { coldStart } }: ProfileReport): Promise<Markup> {
  let total = 0;
  const steps = STEPS.map(([key, name]) => {
    const from = total;
    total += coldStart[key];
    return { name, from, to: total, label: duration(coldStart[key]), ms: coldStart[key] };
  });
  const slowest = steps.reduce((max, step) => (step.ms > max.ms ? step : max));
  return figure({
    id: 'cold-start',
    title: 'Cold start, step by step',
    essence: `A fresh process is ready after ${duration(total)}; ${duration(slowest.ms)} of that are the step “${slowest.name}”. Timed on this machine, without what AWS takes before the process.`,
    chart: (size) => stepsChart({ x: fromZero([total], 'milliseconds', short), steps }, size),
    table: table(
      'Cold start',
      [{ head: 'step', isText: true }, 'ms'],
      steps.map(({ name, ms }) => ({ cells: [name, data(ms, digits(ms))] })),
    ),
  });
}

/** What forms of compute cost at other rates, and where one becomes cheaper than another. */
async function costsSection(report: ProfileReport): Promise<Markup> {
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

/** What was found besides; nothing where nothing was. */
function findingsSection({ measured: { findings } }: ProfileReport): Markup | undefined {
  if (findings.length === 0) return undefined;
  return html`<section id="findings"><h2>Findings</h2>
<ul class="findings">${findings.map((finding) => html`<li>${sentence(finding).replace(/\.?$/, '.')}</li>`)}</ul></section>
`;
}

/** On what all this was measured, and what is assumed in it. */
function aboutSection({ measured, notes, question: { prices } }: ProfileReport): Markup {
  const { machine, versions, provider, threads, digest, date } = measured;
  const facts: readonly (readonly [string, string])[] = [
    ['Measured', `${dateOf(date)}, ${date.slice(11, 16)} UTC`],
    [
      'Machine',
      `${machine.cpu}, ${count(machine.cores)} ${machine.cores === 1 ? 'core' : 'cores'}, ${machine.architecture}, ${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB`,
    ],
    [
      'Execution provider',
      `${provider}, ${threads} ${threads === 1 ? 'thread' : 'threads'} as it is deployed on such a machine`,
    ],
    ['Versions', `batchscore ${versions.batchscore}, Node ${versions.node}, ONNX Runtime ${versions.onnxruntime}`],
    ['Model', digest],
    ['Prices', `${prices.date}, ${prices.region}`],
  ];
  return html`<section id="about"><h2>On what this stands</h2>
<dl class="about">
${facts.map(
  ([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>
`,
)}</dl>
<h3>Assumed in all figures</h3>
<ul>${notes.map((note) => html`<li>${note}</li>`)}</ul></section>
`;
}

/** 22 November 2026 */
function dateOf(iso: string): string {
  return new Date(iso).toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' });
}

export type MeasuredRun = Measurement['table'][number];

/** Runs of one chart. */
interface Panel {
  /** Tells it from others, in a title; empty where there is one. */
  readonly suffix: string;
  readonly groups: readonly RunGroup[];
  /** Of ordinary rows, with as many threads as are deployed or as the chart is of; at least one run. */
  readonly main: readonly MeasuredRun[];
  /** The one of them at the knee. */
  readonly knee: MeasuredRun;
  /** Begins a sentence on them; empty where all runs are such. */
  readonly ofMain: string;
}

/** Runs of one length and number of threads, by rows. */
interface RunGroup {
  readonly name: string;
  readonly runs: readonly MeasuredRun[];
}

/**
 * One chart with a line for each number of threads; or, with several lengths, one for each number of threads. The first is
 * of what is deployed. What was not run is left out.
 */
function panelsOf(measured: Measurement): Panel[] {
  const { table, threads, length } = measured;
  const lengths = distinct(table.map((run) => run.length));
  const counts = distinct(table.map((run) => run.threads)).toSorted(
    (a, b) => Number(b === threads) - Number(a === threads),
  );
  const groupOf = (name: string, ofThreads: number, ofLength: number): RunGroup => ({
    name,
    runs: table
      .filter((run) => run.threads === ofThreads && run.length === ofLength)
      .toSorted((a, b) => a.rows - b.rows),
  });
  const panelOf = (suffix: string, ofMain: string, ofThreads: number, groups: readonly RunGroup[]): Panel[] => {
    const main = groupOf('', ofThreads, length).runs;
    if (main.length === 0) return [];
    const { rows } = kneeOf({ table, length, threads: ofThreads });
    const knee = main.find((run) => run.rows === rows) as MeasuredRun;
    return [{ suffix, ofMain, main, knee, groups: groups.filter(({ runs }) => runs.length > 0) }];
  };
  if (lengths.length === 1) {
    const ofMain = counts.length === 1 ? '' : `with ${threadsName(threads)} `;
    return panelOf(
      '',
      ofMain,
      threads,
      counts.map((count) => groupOf(threadsName(count), count, length)),
    );
  }
  return counts.flatMap((count) => {
    const groups = lengths.map((one) => groupOf(`length ${one}`, count, one));
    return panelOf(
      counts.length === 1 ? '' : `, ${threadsName(count)}`,
      `of rows of length ${length}, `,
      count,
      groups,
    );
  });
}

export function distinct(values: readonly number[]): number[] {
  return [...new Set(values)].toSorted((a, b) => a - b);
}

function threadsName(threads: number): string {
  return threads === 1 ? '1 thread' : `${threads} threads`;
}

function rowsName(rows: number): string {
  return rows === 1 ? '1 row' : `${count(rows)} rows`;
}
