import { arch } from 'node:os';
import { plural } from '../../lambda/core/failure.ts';
import type { Measurement } from './measure/measureModel.ts';
import {
  type Expectation,
  type SettingsAnswer,
  type SettingsQuestion,
  settingsFor,
} from './settings/chooseSettings.ts';
import { type Dollars, HOST_COSTS, rowsPerSecond, vcpusOf } from './settings/invocationCosts.ts';
import { type MonthlyCost, monthlyCosts, SECONDS_A_MONTH } from './settings/monthlyCosts.ts';

/** Everything that the command found: what it prints, keeps in `profile.json` and shows on its page are parts of it. */
export interface ProfileReport {
  readonly measured: Measurement;
  readonly knee: Knee;
  readonly question: SettingsQuestion;
  readonly answer: SettingsAnswer;
  readonly recommendation: Recommendation;
  readonly monthly: readonly MonthlyCost[];
}

/** @param architecture of the function, where it is not the construct's default */
export function createReport(
  found: Measurement,
  question: SettingsQuestion,
  architecture: string | undefined,
): ProfileReport {
  const knee = kneeOf(found);
  const answer = settingsFor(question);
  const measured = { ...found, findings: [...found.findings, ...gainsNothing(found, knee)] };
  return {
    measured,
    knee,
    question,
    answer,
    recommendation: recommendationOf(answer, question.budgetMs, architecture),
    monthly: monthlyCosts(question, answer.chosen),
  };
}

export type MeasuredRun = Measurement['table'][number];

/** The fewest rows that give nearly the most rows a second, with runs of ordinary length as they are deployed. */
interface Knee {
  readonly rows: number;
  readonly length: number;
  readonly threads: number;
  readonly rowsPerSecond: number;
  /** Of the most rows a second, and how many rows give that. */
  readonly share: number;
  readonly maxAtRows: number;
}

/** More rows that give so little more are not worth their wait and their memory. */
const NEARLY = 0.95;

function kneeOf(measured: Measurement): Knee {
  const { length, threads } = measured;
  const runs = deployedRuns(measured);
  const max = runs.reduce((best, run) => (run.rowsPerSecond > best.rowsPerSecond ? run : best));
  const knee = runs.find((run) => run.rowsPerSecond >= NEARLY * max.rowsPerSecond) as MeasuredRun;
  const { rows, rowsPerSecond } = knee;
  return { rows, length, threads, rowsPerSecond, share: rowsPerSecond / max.rowsPerSecond, maxAtRows: max.rows };
}

/** Runs of ordinary length on as many threads as a host has, fewer rows first; at least one. */
export function deployedRuns({ table, length, threads }: Measurement): MeasuredRun[] {
  return table.filter((run) => run.length === length && run.threads === threads).toSorted((a, b) => a.rows - b.rows);
}

function gainsNothing(measured: Measurement, { rows: atKnee }: Knee): string[] {
  const runs = deployedRuns(measured);
  const [fewest, most] = [runs[0], runs.at(-1)] as [MeasuredRun, MeasuredRun];
  if (fewest === most || atKnee > fewest.rows) return [];
  const times = (most.rowsPerSecond / fewest.rowsPerSecond).toFixed(2);
  return [
    `rows gain nothing from sharing a run: ${most.rows} of them give ${times} times the rows a second of ${fewest.rows}`,
  ];
}

/** The settings that are recommended, and why. */
interface Recommendation {
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly maxBatchRows: number;
  readonly memoryMb: number;
  readonly maximumConcurrency: number;
  readonly reason: string;
  /** True if they answer 99 % of the messages in time. Where none do, they are those that answer soonest. */
  readonly withinBudget: boolean;
  /** US dollars. */
  readonly dollarsPerMillionRows: number;
  /** The same as props of the construct, to paste into infra/app.ts: lines of code. */
  readonly props: readonly string[];
}

function recommendationOf(
  { chosen, reason }: SettingsAnswer,
  budgetMs: number,
  architecture: string | undefined,
): Recommendation {
  const { batchSize, windowSeconds, maxBatchRows, memoryMb, maximumConcurrency } = chosen;
  return {
    batchSize,
    windowSeconds,
    maxBatchRows,
    memoryMb,
    maximumConcurrency,
    reason,
    withinBudget: chosen.p99AgeMs <= budgetMs,
    dollarsPerMillionRows: chosen.dollarsPerMillionRows.total,
    props: propsOf(chosen, architecture),
  };
}

/** Lines of code with the props of a function behind one standard queue. */
function propsOf(
  { batchSize, windowSeconds, maxBatchRows, memoryMb, maximumConcurrency }: SettingsAnswer['chosen'],
  architecture: string | undefined,
): string[] {
  const options = [
    ...(architecture === undefined
      ? []
      : [`architecture: Architecture.${architecture === 'arm64' ? 'ARM_64' : 'X86_64'}`]),
    `memorySize: Size.mebibytes(${memoryMb})`,
    `maximumConcurrency: ${maximumConcurrency}`,
  ];
  return [
    `batchSize: ${batchSize},`,
    `window: Duration.seconds(${windowSeconds}),`,
    `tuning: { maxBatchRows: ${maxBatchRows} },`,
    'compute: lambdaCompute({',
    ...options.map((option) => `  ${option},`),
    '}),',
  ];
}

/** What `--json` prints. */
export function printedOf({ measured, knee, recommendation, answer, monthly }: ProfileReport) {
  const { path: _, requestBytes: __, ...printed } = measured;
  const { candidates, forms } = answer;
  return { ...printed, knee, recommendation, monthly, candidates, forms };
}

const MAX_CANDIDATES = 10;
const RECOMMENDED = 'Recommended props, for infra/app.ts';
const NOT_RECOMMENDED = 'Not recommended, as nothing keeps to the budget; the soonest';

/** What was found, for a terminal. */
export function renderProfile(report: ProfileReport): string {
  const { measured, knee, question, answer, recommendation } = report;
  const { candidates, chosen } = answer;
  const cheapest = candidates.slice(0, MAX_CANDIDATES);
  const shown = cheapest.includes(chosen) ? cheapest : [...cheapest, chosen];
  const mark: Column<Expectation> = ['', (one) => (one === chosen ? '>' : '')];
  const sections = [
    `${measured.model}: ${describeSafety(measured)}\n${describeStart(measured)}`,
    aligned(measured.table, RUN_COLUMNS),
    measured.table.some(({ rows }) => rows !== knee.rows) ? `Knee: ${describeKnee(report)}` : '',
    measured.findings.map((finding) => `! ${finding}`).join('\n'),
    `${describeQuestion(question)}; settings tried: ${answer.tried}, the best of each batch size and window:`,
    aligned(shown, [mark, ...CANDIDATE_COLUMNS]),
    `${describeMonth(report)}:`,
    aligned(report.monthly, MONTH_COLUMNS),
    'US dollars for a million rows with these settings, marked >:',
    [aligned(pricedForms(answer), FORM_COLUMNS), describeUnmeasured(answer) ?? []].flat().join('\n'),
    `${recommendation.withinBudget ? RECOMMENDED : NOT_RECOMMENDED}:\n\n${recommendation.props.join('\n')}\n\n` +
      `Reason: ${recommendation.reason}.`,
    notesOf(report)
      .map((note) => `- ${note}`)
      .join('\n'),
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

/** The head of a column, and what stands in it. */
export type Column<One> = readonly [head: string, cell: (one: One) => string];

export const RUN_COLUMNS: readonly Column<MeasuredRun>[] = [
  ['rows', ({ rows }) => count(rows)],
  ['length', ({ length }) => count(length)],
  ['threads', ({ threads }) => count(threads)],
  ['median ms', ({ medianMs }) => medianMs.toFixed(3)],
  ['spread', ({ spread }) => percent(spread)],
  ['rows/s', ({ rowsPerSecond }) => count(rowsPerSecond)],
  ['peak MiB', ({ peakRssBytes }) => count(peakRssBytes / MIB)],
];

export const CANDIDATE_COLUMNS: readonly Column<Expectation>[] = [
  ['batch size', ({ batchSize }) => count(batchSize)],
  ['window s', ({ windowSeconds }) => count(windowSeconds)],
  ['memory MB', ({ memoryMb }) => count(memoryMb)],
  ['concurrency', ({ maximumConcurrency }) => count(maximumConcurrency)],
  ['messages', ({ messagesPerInvocation }) => messagesPerInvocation.toFixed(1)],
  ['fill', ({ fill }) => percent(fill)],
  ['micro-batches', ({ microBatchesPerInvocation }) => microBatchesPerInvocation.toFixed(1)],
  ['p50 age ms', ({ p50AgeMs }) => count(p50AgeMs)],
  ['p99 age ms', ({ p99AgeMs }) => count(p99AgeMs)],
  ['$/M rows', ({ dollarsPerMillionRows }) => dollarsPerMillionRows.total.toFixed(3)],
];

export const MONTH_COLUMNS: readonly Column<MonthlyCost>[] = [
  ['form', ({ way }) => way],
  ['$ a month', ({ dollarsPerMonth }) => cents(dollarsPerMonth)],
  ['p99 age ms', ({ p99AgeMs }) => (p99AgeMs === undefined ? '' : count(p99AgeMs))],
  ['how', ({ how }) => how],
];

/** 0.0012, 1.23, 12,345 */
function cents(dollars: number): string {
  if (dollars >= 1000) return count(dollars);
  return dollars >= 0.01 ? dollars.toFixed(2) : dollars.toPrecision(2);
}

/** How many rows a month has, of which the costs are. */
export function describeMonth({ question }: Pick<ProfileReport, 'question'>): string {
  const perSecond = rowsPerSecond(question);
  return `A month of ${figures(perSecond * SECONDS_A_MONTH, 3)} rows, ${figures(perSecond, 3)} a second, in US dollars`;
}

/** 0.0412, 3.81, 1,230: so many digits, and all others 0. */
function figures(value: number, digits: number): string {
  return value.toLocaleString('en-US', { maximumSignificantDigits: digits });
}

type PricedForm = Dollars & { readonly name: string };

export const FORM_COLUMNS: readonly Column<PricedForm>[] = [
  ['form', ({ name }) => name],
  ['compute', ({ compute }) => compute.toFixed(3)],
  ['invocations', ({ invocations }) => invocations.toFixed(3)],
  ['requests', ({ requestQueue }) => requestQueue.toFixed(3)],
  ['results', ({ resultQueue }) => resultQueue.toFixed(3)],
  ['idle', ({ idle }) => idle.toFixed(3)],
  ['total', ({ total }) => total.toFixed(3)],
];

export function pricedForms({ forms }: SettingsAnswer): PricedForm[] {
  return forms.flatMap(({ name, dollarsPerMillionRows: dollars }) => (dollars === null ? [] : [{ name, ...dollars }]));
}

/** Undefined where all forms have a price. */
export function describeUnmeasured({ forms }: SettingsAnswer): string | undefined {
  const names = forms.filter(({ dollarsPerMillionRows }) => dollarsPerMillionRows === null).map(({ name }) => name);
  return names.length === 0 ? undefined : `Not measured: ${names.join(', ')}.`;
}

const LEFT = ['form', 'how'];

/** Columns of one width each, numbers to the right, words to the left. */
function aligned<One>(ones: readonly One[], columns: readonly Column<One>[]): string {
  const padded = columns.map(([head, cell]) => {
    const cells = [head, ...ones.map(cell)];
    const width = Math.max(...cells.map(({ length }) => length));
    return cells.map((text) => (LEFT.includes(head) ? text.padEnd(width) : text.padStart(width)));
  });
  const lines = [...ones.keys(), ones.length].map((line) => padded.map((cells) => cells[line]).join('  '));
  return lines.map((line) => line.trimEnd()).join('\n');
}

/** Returns true if rows may share runs, and why. */
export function describeSafety({ safety: { evidence } }: Measurement): string {
  return evidence;
}

export function describeStart({ coldStart }: Measurement): string {
  const { processMs, libraryMs, loadMs, warmUpMs } = coldStart;
  const seconds = (ms: number): string => (ms / 1000).toFixed(2);
  return (
    `Cold start ${seconds(startMs(coldStart))} s: process ${seconds(processMs)}, library ${seconds(libraryMs)}, ` +
    `model ${seconds(loadMs)}, warm-up and checks ${seconds(warmUpMs)}`
  );
}

function startMs({ processMs, libraryMs, loadMs, warmUpMs }: Measurement['coldStart']): number {
  return processMs + libraryMs + loadMs + warmUpMs;
}

export function describeKnee({ knee, measured }: Pick<ProfileReport, 'knee' | 'measured'>): string {
  const { rows, length, share, maxAtRows, threads } = knee;
  const ofLength = measured.table.every((run) => run.length === length) ? '' : ` of length ${length}`;
  const what = `runs of ${plural(rows, 'row')}${ofLength}`;
  const on = `on ${plural(threads, 'thread')}, as deployed here`;
  if (maxAtRows === rows) return `${what} give the most rows a second ${on}.`;
  return `${what} give ${percent(share)} of the most rows a second, which ${count(maxAtRows)} rows give, ${on}.`;
}

/** The traffic that was asked for. */
export function describeQuestion({ trace, messagesPerSecond, budgetMs, messages }: SettingsQuestion): string {
  const rate = `${figures(messagesPerSecond, 3)} messages/s`;
  const how = trace === undefined ? 'at random' : `as in the trace of ${trace.times.length}`;
  const packed = messages.requestsPerMessage === 1 ? '' : ` of ${plural(messages.requestsPerMessage, 'request')}`;
  return `${rate}${packed} ${how}, 99 % to be answered within ${count(budgetMs)} ms`;
}

/** What holds of all figures, a sentence each. */
export function notesOf({ measured, question, recommendation: { memoryMb } }: ProfileReport): string[] {
  const { prices, architecture, messages } = question;
  const { messageMs, requestMs, roundTripMs } = HOST_COSTS;
  const here = arch() === 'arm64' ? 'arm64' : 'x86_64';
  const elsewhere = here === architecture ? '' : `, also on ${architecture}, where nothing was measured`;
  const startSeconds = startMs(measured.coldStart) / 1000 / Math.min(1, vcpusOf(memoryMb));
  return [
    `Runs were timed on this machine (${here}); a function's share of a vCPU is taken to be as fast${elsewhere}.`,
    `A new environment also starts, about ${startSeconds.toFixed(1)} s with ${memoryMb} MB, and longer where its image is not cached; its first messages wait for that, which no age above holds.`,
    'Peak memory is that of a process with the model alone; a function also holds its clients and its event.',
    `Besides the runs, an invocation takes ${messageMs} ms a message, ${requestMs} ms a request and ${roundTripMs} ms for calls to SQS: assumed, not measured here.`,
    `A request is taken to have ${messages.messageBytes / messages.requestsPerMessage} bytes, a result ${messages.resultBytes / messages.requestsPerMessage}.`,
    `Prices of ${prices.date}, ${prices.region}, without logs, metrics, alarms and storage. What is not measured has no price.`,
  ];
}

export const MIB = 1024 * 1024;

/** 12,345 */
export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

export function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}
