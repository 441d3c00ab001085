import { arch } from 'node:os';
import { plural } from '../../lambda/core/failure.ts';
import { count, dollars, duration, durationOver, figure, percent } from '../format.ts';
import type { Chart, ReportPage, TableShown } from '../page/wire.ts';
import { inColumns } from '../terminal.ts';
import { type SettingsAnswer, type SettingsQuestion, settingsFor } from './chooseSettings.ts';
import {
  gatheringMs,
  HOST_COSTS,
  kneeOf,
  PRICES,
  rowsPerSecond,
  SECONDS_A_MONTH,
  TASK,
  vcpusOf,
  workersFor,
} from './costs.ts';
import type { Measurement } from './measure/measureModel.ts';

/** Complete findings of the command. The printed text, `profile.json` and the page show parts of them. */
export type ProfileReport = ReturnType<typeof createReport>;

export function createReport(measured: Measurement, question: SettingsQuestion) {
  const answer = settingsFor(question);
  return {
    measured,
    knee: kneeIn(measured),
    question,
    answer,
    recommendation: recommendationOf(answer, question.budgetMs),
    workers: workersFor(question.table, question.length, question),
  };
}

export type MeasuredRun = Measurement['table'][number];

/** Returns the rows beyond which more rows gain little, in runs of ordinary length as deployed. */
function kneeIn({ table, length, threads }: Measurement) {
  const ofHost = table.filter((run) => run.length === length && run.threads === threads);
  const runs = ofHost.toSorted((a, b) => a.rows - b.rows);
  const at = kneeOf(runs.map(({ rowsPerSecond }) => rowsPerSecond));
  const { rows, rowsPerSecond } = runs[at] as MeasuredRun;
  /** True if the largest runs that were measured still gain. More rows may be faster. */
  const isOpen = at > 0 && at === runs.length - 1;
  return { rows, length, threads, rowsPerSecond, isOpen };
}

type Recommendation = ReturnType<typeof recommendationOf>;

function recommendationOf({ chosen, reason }: SettingsAnswer, budgetMs: number) {
  const { batchSize, windowSeconds, maxBatchRows, memoryMb, maximumConcurrency, dollarsPerMillionRows } = chosen;
  return {
    batchSize,
    windowSeconds,
    maxBatchRows,
    memoryMb,
    maximumConcurrency,
    reason,
    /** True if 99 % of the messages are answered in time. If no settings achieve this, they are the fastest ones. */
    withinBudget: chosen.p99AgeMs <= budgetMs,
    dollarsPerMillionRows,
    /** Lines of code with the same settings as construct props, to paste into infra/app.ts. */
    props: [
      `batchSize: ${batchSize},`,
      `window: Duration.seconds(${windowSeconds}),`,
      `tuning: { maxBatchRows: ${maxBatchRows} },`,
      'compute: lambdaCompute({',
      `  memorySize: Size.mebibytes(${memoryMb}),`,
      `  maximumConcurrency: ${maximumConcurrency},`,
      '}),',
    ],
  };
}

/** Returns the output of `--json`. */
export function printedOf({ measured, knee, recommendation, answer, workers }: ProfileReport) {
  const { path: _, requestBytes: __, ...printed } = measured;
  return { ...printed, knee, recommendation, candidates: answer.candidates, workers };
}

const RECOMMENDED = 'Recommended props, for infra/app.ts';
const NOT_RECOMMENDED = 'Not recommended, as nothing keeps to the budget; the soonest';

/** Formats the report for a terminal. */
export function renderProfile(report: ProfileReport): string {
  const { measured, recommendation } = report;
  const settings = settingsOf(report);
  const marked = settings.rows.map((cells, index) => [index === settings.chosen ? '>' : '', ...cells]);
  const sections = [
    `${measured.model}: ${measured.safety.evidence}\n${describeStart(measured)}`,
    inColumns(runsOf(measured)),
    `Knee: ${describeKnee(report)}`,
    measured.findings.map((finding) => `! ${finding}`).join('\n'),
    `${describeQuestion(report)}:`,
    inColumns([['', ...settings.heads], ...marked]),
    `${recommendation.withinBudget ? RECOMMENDED : NOT_RECOMMENDED}:\n\n${recommendation.props.join('\n')}\n\n` +
      `Reason: ${recommendation.reason}.`,
    notesOf(report)
      .map((note) => `- ${note}`)
      .join('\n'),
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

const MAX_CANDIDATES = 10;

/** Returns the table of settings, the cheapest first. */
function settingsOf({ answer, question }: ProfileReport): TableShown & { readonly chosen: number } {
  const { candidates, chosen, oneByOne } = answer;
  const cheapest = candidates.slice(0, MAX_CANDIDATES);
  const shown = [...new Set([...cheapest, chosen, oneByOne ?? chosen])];
  const aMonth = (rowsPerSecond(question) * SECONDS_A_MONTH) / 1e6;
  const { budgetMs } = question;
  const ageOf = (ms: number): string =>
    ms > budgetMs ? `${durationOver(ms, budgetMs)}, over the budget` : duration(ms);
  return {
    caption: 'Settings and what they cost',
    heads: ['batch size', 'window s', 'memory MB', 'concurrency', 'fill', 'p99 age', 'a million rows', 'a month'],
    rows: shown.map((one) => [
      count(one.batchSize),
      count(one.windowSeconds),
      count(one.memoryMb),
      count(one.maximumConcurrency),
      percent(one.fill),
      ageOf(one.p99AgeMs),
      dollars(one.dollarsPerMillionRows),
      dollars(one.dollarsPerMillionRows * aMonth),
    ]),
    chosen: shown.indexOf(chosen),
  };
}

function runsOf({ table }: Measurement): string[][] {
  return [
    ['rows', 'length', 'threads', 'median ms', 'spread', 'rows/s', 'peak MiB'],
    ...table.map(({ rows, length, threads, medianMs, spread, rowsPerSecond: speed, peakRssBytes }) => [
      ...[rows, length, threads].map(count),
      figure(medianMs),
      percent(spread),
      count(speed),
      count(peakRssBytes / MIB),
    ]),
  ];
}

const MIB = 1024 * 1024;

function describeStart({ coldStart }: Measurement): string {
  const { processMs, libraryMs, loadMs, warmUpMs } = coldStart;
  return (
    `Cold start ${duration(startMs(coldStart))}: process ${duration(processMs)}, library ${duration(libraryMs)}, ` +
    `model ${duration(loadMs)}, warm-up and checks ${duration(warmUpMs)}`
  );
}

function startMs({ processMs, libraryMs, loadMs, warmUpMs }: Measurement['coldStart']): number {
  return processMs + libraryMs + loadMs + warmUpMs;
}

function describeKnee({ knee, measured }: ProfileReport): string {
  const { rows, length, threads, isOpen } = knee;
  const ofLength = measured.table.every((run) => run.length === length) ? '' : ` of length ${length}`;
  const runs = `runs of ${plural(rows, 'row')}${ofLength} on ${plural(threads, 'thread')}, as deployed here`;
  const perSecond = `${count(knee.rowsPerSecond)} rows/s`;
  if (isOpen) return `throughput still grows at the largest ${runs}: ${perSecond}; more rows may give more.`;
  return `${runs}, give ${perSecond}; more rows give less than 5 % more.`;
}

/** Describes the requested traffic, and the number of settings that were tried. */
function describeQuestion({ question, answer }: ProfileReport): string {
  const { messagesPerSecond, budgetMs, messages } = question;
  const packed =
    messages.requestsPerMessage === 1
      ? ''
      : ` of ${plural(messages.requestsPerMessage, 'request')}, gathered in ${duration(gatheringMs(question))},`;
  const aMonth = figure((rowsPerSecond(question) * SECONDS_A_MONTH) / 1e6);
  return (
    `${figure(messagesPerSecond)} messages/s${packed} at random, ${aMonth} million rows a month, 99 % to be answered within ` +
    `${duration(budgetMs)}; of ${count(answer.tried)} settings the best of each batch size and window, in US dollars`
  );
}

/** Returns the sentences that apply to all figures. */
function notesOf({ measured, question, recommendation: { memoryMb }, workers }: ProfileReport): string[] {
  const { messages } = question;
  const { messageMs, requestMs, roundTripMs } = HOST_COSTS;
  const here = arch() === 'arm64' ? 'arm64' : 'x86_64';
  const elsewhere = here === 'arm64' ? '' : ', also on arm64, where nothing was measured';
  const startSeconds = startMs(measured.coldStart) / 1000 / Math.min(1, vcpusOf(memoryMb));
  const perMillion = workers.dollarsPerMillionRows;
  const aMonth = (perMillion * rowsPerSecond(question) * SECONDS_A_MONTH) / 1e6;
  return [
    `Workers on ECS instead: ${plural(workers.tasks, 'task')} of ${TASK.vcpus} vCPU and ${TASK.gb} GiB, ${dollars(perMillion)} a million rows, ${dollars(aMonth)} a month.`,
    `Runs were timed on this machine (${here}); a function's share of a vCPU is taken to be as fast${elsewhere}.`,
    `A new environment also starts, about ${duration(1000 * startSeconds)} with ${memoryMb} MB, and longer if its image is not cached. Its first messages wait for that; no age above includes it.`,
    'Peak memory is that of a process with the model alone. A function also holds its clients and its event.',
    `Besides the runs, an invocation takes ${messageMs} ms a message, ${requestMs} ms a request and ${roundTripMs} ms for calls to SQS: assumed, not measured here.`,
    `A request is taken to have ${messages.messageBytes / messages.requestsPerMessage} bytes, a result ${messages.resultBytes / messages.requestsPerMessage}.`,
    `Prices of ${PRICES.date}, ${PRICES.region}, arm64, without logs, metrics, alarms and storage.`,
  ];
}

export function pageOf(report: ProfileReport): ReportPage {
  const { measured, recommendation } = report;
  const { model, version, date, machine, versions, provider, safety, findings } = measured;
  return {
    title: `Profile of ${model}, version ${version}`,
    measured:
      `Measured by batchscore ${versions.batchscore} on ${dateOf(date)}, on ${plural(machine.cores, 'core')} of ${machine.cpu}, ` +
      `provider ${provider}, ONNX Runtime ${versions.onnxruntime}`,
    lead: headline(recommendation),
    reasons: [recommendation.reason, safety.evidence],
    props: recommendation.props.join('\n'),
    findings,
    chart: throughputChart(report),
    question: describeQuestion(report),
    settings: settingsOf(report),
    notes: notesOf(report),
  };
}

/** Formats a date, such as 22 November 2026. */
function dateOf(iso: string): string {
  return new Date(iso).toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' });
}

function headline({ batchSize, windowSeconds, withinBudget }: Recommendation): string {
  if (!withinBudget)
    return 'Nothing that was tried keeps to the budget: allow more time. These settings answer soonest.';
  if (batchSize === 1) return 'Do not batch: hand over one message at a time.';
  const wait =
    windowSeconds === 0 ? 'without waiting for them' : `wait ${duration(1000 * windowSeconds)} for them at most`;
  return `Hand over up to ${plural(batchSize, 'message')} at a time; ${wait}.`;
}

/**
 * Returns the throughput of runs as deployed, with a line for each length. For rows of one length it has a line for
 * each number of threads.
 */
function throughputChart(report: ProfileReport): Chart {
  const { measured, knee } = report;
  const hasLengths = measured.table.some(({ length }) => length !== knee.length);
  const shown = measured.table.filter(({ threads }) => !hasLengths || threads === knee.threads);
  const nameOf = (run: MeasuredRun): string => (hasLengths ? `length ${run.length}` : plural(run.threads, 'thread'));
  const counts = [...new Set(shown.map(({ rows }) => rows))].toSorted((a, b) => a - b);
  return {
    title: 'Throughput by rows in a run',
    words: describeKnee(report),
    x: { title: 'rows in a run', values: counts, isLogarithmic: true },
    y: { title: 'rows per second', format: 'short' },
    lines: [...Map.groupBy(shown, nameOf)].map(([name, runs]) => ({
      name,
      values: counts.map((rows) => runs.find((run) => run.rows === rows)?.rowsPerSecond ?? null),
    })),
  };
}
