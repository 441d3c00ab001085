import { plural } from '../../../lambda/core/failure.ts';
import {
  CANDIDATE_COLUMNS,
  count,
  deployedRuns,
  describeKnee,
  describeMonth,
  describeQuestion,
  describeSafety,
  describeStart,
  describeUnmeasured,
  FORM_COLUMNS,
  type MeasuredRun,
  MIB,
  MONTH_COLUMNS,
  notesOf,
  type ProfileReport,
  percent,
  pricedForms,
  RUN_COLUMNS,
} from '../profileReport.ts';
import type { Expectation } from '../settings/chooseSettings.ts';
import { axisOf, figure, roundAxis, type Series } from './lineChart.ts';
import { dollars, duration, html, type Markup, STYLES, sentence, table } from './markup.ts';

/** A profile as one HTML file, which holds all that it needs: no script, no font and nothing else is fetched. */
export function renderPage(report: ProfileReport): string {
  const { measured } = report;
  const { model, version, date, machine } = measured;
  const sections: readonly (readonly [id: string, title: string, content: Markup])[] = [
    ['recommendation', 'Recommendation', recommendation(report)],
    ...(measured.findings.length === 0 ? [] : [['findings', 'Findings', list(measured.findings)] as const]),
    ['runs', 'Runs, memory and start', runs(report)],
    ['settings', 'Settings for the traffic', settings(report)],
    ['cost', 'Cost on other forms of compute', costs(report)],
    ['about', 'What this is based on', about(report)],
  ];
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
<p class="aside">Measured on ${dateOf(date)}, ${plural(machine.cores, 'core')} of ${machine.cpu}</p>
</header>
<nav aria-label="Sections"><ul>${sections.map(([id, title]) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
<main>
${sections.map(
  ([id, title, content]) => html`<section id="${id}"><h2>${title}</h2>
${content}</section>
`,
)}</main>
<footer><p>Written by <code>batchscore profile</code>, beside profile.json, which holds what was measured.</p></footer>
</body>
</html>
`;
  return page.text;
}

/** 22 November 2026 */
function dateOf(iso: string): string {
  return new Date(iso).toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' });
}

function list(sentences: readonly string[]): Markup {
  return html`<ul>${sentences.map((one) => html`<li>${sentence(one)}</li>`)}</ul>
`;
}

/** What to do, why, what it comes to, and whether rows may share runs: all that most readers need. */
function recommendation({ recommendation: recommended, measured, answer, question }: ProfileReport): Markup {
  const { batchSize, memoryMb, maximumConcurrency, maxBatchRows, dollarsPerMillionRows } = recommended;
  const { chosen, oneByOne } = answer;
  const single = batchSize === 1 ? '' : `; one by one ${dollars(costOf(oneByOne))}`;
  const facts = [
    ['Cost', dollars(dollarsPerMillionRows), `a million rows${single}`],
    ['99 % answered within', duration(chosen.p99AgeMs), `of the budget of ${duration(question.budgetMs)}`],
    [
      'Messages an invocation',
      chosen.messagesPerInvocation.toFixed(1),
      `on average, ${percent(chosen.fill)} of the batch size`,
    ],
    [
      'Function',
      `${count(memoryMb)} MB`,
      `up to ${count(maximumConcurrency)} at a time, ${plural(maxBatchRows, 'row')} a run at most`,
    ],
  ];
  return html`<p class="lead">${headline(recommended)}</p>
<p>${sentence(recommended.reason)}</p>
<dl class="facts">
${facts.map(
  ([name, value, more]) => html`<div><dt>${name}</dt><dd><strong>${value}</strong> ${more}</dd></div>
`,
)}</dl>
<div class="pair">
<div class="verdict"><span class="sign" aria-hidden="true">${measured.safety.sharesRuns ? '✓' : '✕'}</span><p>${sentence(describeSafety(measured))}</p></div>
<div><h3>Props for infra/app.ts</h3>
<pre tabindex="0" role="region" aria-label="Props for infra/app.ts"><code>${recommended.props.join('\n')}</code></pre>
<p class="aside">For a function behind one standard queue.</p></div>
</div>
`;
}

function headline({ batchSize, windowSeconds, withinBudget }: ProfileReport['recommendation']): string {
  if (!withinBudget)
    return 'Nothing that was tried keeps to the budget: allow more time. These settings answer soonest.';
  if (batchSize === 1) return 'Do not batch: hand over one message at a time.';
  const wait =
    windowSeconds === 0 ? 'without waiting for them' : `wait ${duration(1000 * windowSeconds)} for them at most`;
  return `Hand over up to ${plural(batchSize, 'message')} at a time; ${wait}.`;
}

/** What runs give and take by their rows, what padding and memory cost, and what a start takes. */
function runs(report: ProfileReport): Markup {
  const { measured, knee, question } = report;
  const shown = linesOf(report);
  const x = axisOf(
    'rows in a run',
    shown.flatMap((group) => group.runs.map(({ rows }) => rows)),
  );
  const vertical = { at: knee.rows, name: `knee: ${plural(knee.rows, 'row')}` };
  const series = (value: (run: MeasuredRun) => number): Series[] =>
    shown.map((group) => ({
      name: group.name,
      points: group.runs.map((run) => [run.rows, value(run)] as const),
      isMarked: true,
    }));
  const valuesOf = (of: readonly Series[]): number[] => of.flatMap(({ points }) => points.map(([, value]) => value));
  const throughput = series(({ rowsPerSecond }) => rowsPerSecond);
  const latency = series(({ medianMs }) => medianMs);
  const ofBudget = Math.max(...valuesOf(latency)) > question.budgetMs ? 'longer than that' : 'shorter';
  return html`<div class="figures">
${figure({
  id: 'throughput',
  title: 'Throughput by rows in a run',
  essence: sentence(describeKnee(report)),
  x,
  y: roundAxis('rows per second', valuesOf(throughput)),
  series: throughput,
  vertical,
})}${figure({
  id: 'latency',
  title: 'Latency by rows in a run',
  essence:
    `The budget of ${duration(question.budgetMs)} is for a message's whole way. The slowest run here is ${ofBudget}: ` +
    `${duration(Math.max(...valuesOf(latency)))}.`,
  x,
  y: roundAxis('milliseconds, median', valuesOf(latency)),
  series: latency,
  vertical,
  horizontal: { at: question.budgetMs, name: `budget: ${duration(question.budgetMs)}` },
})}</div>
${paddingOf(report)}${memoryOf(report)}
<p>${sentence(describeStart(measured))} Timed on this machine, without what AWS takes before the process.</p>
<details><summary>All runs</summary>
${table('Runs', measured.table, RUN_COLUMNS)}</details>
`;
}

/** Runs as they are deployed, a line for each length; or, where rows have one length, a line for each number of threads. */
function linesOf({ measured, knee }: ProfileReport): readonly { name: string; runs: readonly MeasuredRun[] }[] {
  const hasLengths = measured.table.some(({ length }) => length !== knee.length);
  const shown = measured.table.filter(({ threads }) => !hasLengths || threads === knee.threads);
  const nameOf = (run: MeasuredRun): string => (hasLengths ? `length ${run.length}` : plural(run.threads, 'thread'));
  return [...Map.groupBy(shown, nameOf)].map(([name, of]) => ({ name, runs: of.toSorted((a, b) => a.rows - b.rows) }));
}

/** What a row takes at the longest length against the shortest, in runs at the knee or of the most rows below it. */
function paddingOf({ measured, knee }: ProfileReport): Markup | undefined {
  const deployed = measured.table.filter(({ threads, rows }) => threads === knee.threads && rows <= knee.rows);
  const largest = [...Map.groupBy(deployed, ({ length }) => length).values()]
    .map((of) => of.reduce((max, run) => (run.rows > max.rows ? run : max)))
    .toSorted((a, b) => a.length - b.length);
  const [shortest, longest] = [largest[0], largest.at(-1)];
  if (shortest === undefined || longest === undefined || shortest === longest) return undefined;
  const times = longest.medianMs / longest.rows / (shortest.medianMs / shortest.rows);
  return html`<p>Padding: a row of length ${shortest.length} that is padded to ${longest.length} takes ${times.toFixed(1)} times as long as in a run of its own length (${plural(longest.rows, 'row')} a run).</p>
`;
}

function memoryOf({ measured, recommendation: { memoryMb } }: ProfileReport): Markup {
  const all = deployedRuns(measured);
  const [few, many] = [all[0], all.at(-1)] as [MeasuredRun, MeasuredRun];
  const held = ({ rows, peakRssBytes }: MeasuredRun): string =>
    `${count(peakRssBytes / MIB)} MiB with ${plural(rows, 'row')} a run`;
  return html`<p>Memory: the process held at most ${held(few)}${few === many ? '' : `, ${held(many)}`}. The function has ${count(memoryMb)} MB.</p>`;
}

/** What batch sizes and windows come to for the traffic that was asked for. */
function settings(report: ProfileReport): Markup {
  const { answer, question } = report;
  const { candidates, chosen, oneByOne, tried } = answer;
  const { budgetMs } = question;
  const ageOf = ({ p99AgeMs }: Expectation): number => p99AgeMs;
  const within = candidates.filter((one) => ageOf(one) <= budgetMs).length;
  const x = axisOf(
    'batch size',
    candidates.map(({ batchSize }) => batchSize),
  );
  const series = (value: (one: Expectation) => number): Series[] =>
    [...Map.groupBy(candidates, ({ windowSeconds }) => windowSeconds)]
      .toSorted(([a], [b]) => a - b)
      .map(([window, of]) => ({
        name: `window ${window} s`,
        points: of.toSorted((a, b) => a.batchSize - b.batchSize).map((one) => [one.batchSize, value(one)] as const),
        isMarked: true,
      }));
  const single = chosen.batchSize === 1 ? 'one message at a time' : `messages one by one ${dollars(costOf(oneByOne))}`;
  return html`<p>${sentence(describeQuestion(question))} ${count(tried)} settings were simulated; here is the best of each batch size and window.</p>
<div class="figures">
${figure({
  id: 'age',
  title: 'Age of answers by batch size',
  essence:
    `${count(within)} of the ${count(candidates.length)} pairs of batch size and window answer 99 % within ` +
    `${duration(budgetMs)}. The chosen one (ringed) takes ${duration(chosen.p99AgeMs)}.`,
  x,
  y: roundAxis('milliseconds, 99th percentile', candidates.map(ageOf)),
  series: series(ageOf),
  horizontal: { at: budgetMs, name: `budget: ${duration(budgetMs)}` },
  rings: [[chosen.batchSize, chosen.p99AgeMs]],
})}${figure({
  id: 'cost-by-batch',
  title: 'Cost by batch size',
  essence: `The chosen settings (ringed) cost ${dollars(costOf(chosen))} for a million rows, ${single}.`,
  x,
  y: roundAxis('US dollars for a million rows', candidates.map(costOf), '$'),
  series: series(costOf),
  rings: [[chosen.batchSize, costOf(chosen)]],
})}</div>
<h3>${describeMonth(report)}</h3>
${table('A month', report.monthly, MONTH_COLUMNS)}${table('The best of each batch size and window', candidates, CANDIDATE_COLUMNS, chosen)}`;
}

function costOf({ dollarsPerMillionRows }: Expectation): number {
  return dollarsPerMillionRows.total;
}

/** What forms of compute cost. */
function costs({ answer }: ProfileReport): Markup {
  const unmeasured = describeUnmeasured(answer);
  return html`<p>US dollars for a million rows at the traffic that was asked for, with the chosen settings.</p>
${table('Forms of compute', pricedForms(answer), FORM_COLUMNS)}${unmeasured && html`<p class="aside">${unmeasured} <code>--gpu-profile</code> takes what was measured there.</p>`}
`;
}

/** On what all this was measured, and what is assumed in it. */
function about(report: ProfileReport): Markup {
  const { machine, versions, provider, threads, digest, date } = report.measured;
  const { prices } = report.question;
  const memory = `${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB`;
  const facts = [
    ['Measured', `${dateOf(date)}, ${date.slice(11, 16)} UTC`],
    ['Machine', `${machine.cpu}, ${plural(machine.cores, 'core')}, ${machine.architecture}, ${memory}`],
    ['Execution provider', `${provider}, ${plural(threads, 'thread')} as it is deployed on such a machine`],
    ['Versions', `batchscore ${versions.batchscore}, Node ${versions.node}, ONNX Runtime ${versions.onnxruntime}`],
    ['Model', digest],
    ['Prices', `${prices.date}, ${prices.region}`],
  ];
  return html`<dl class="about">
${facts.map(
  ([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>
`,
)}</dl>
<h3>Assumed in all figures</h3>
${list(notesOf(report))}`;
}
