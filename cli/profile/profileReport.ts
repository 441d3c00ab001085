import { arch } from 'node:os';
import type { Measurement } from './measure/measureModel.ts';
import type { Expectation, SettingsAnswer, SettingsQuestion } from './settings/chooseSettings.ts';
import { HOST_COSTS, type RunCost, vcpusOf } from './settings/invocationCosts.ts';

/** Everything that the command found: what it prints, keeps in `profile.json` and shows on its page are parts of it. */
export interface ProfileReport {
  /** What `profile.json` keeps, apart from the recommendation. */
  readonly measured: Measurement;
  readonly knee: Knee;
  readonly question: SettingsQuestion;
  readonly answer: SettingsAnswer;
  readonly recommendation: Recommendation;
  /** The traffic that was asked for, in words. */
  readonly asked: string;
  /** What holds of all figures, a sentence each. */
  readonly notes: readonly string[];
}

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

/** @param measured with at least one run of that length and so many threads */
export function kneeOf({ table, length, threads }: Pick<Measurement, 'table' | 'length' | 'threads'>): Knee {
  const runs = table
    .filter((run) => run.length === length && run.threads === threads)
    .toSorted((a, b) => a.rows - b.rows);
  const max = runs.reduce((best, run) => (run.rowsPerSecond > best.rowsPerSecond ? run : best));
  const knee = runs.find((run) => run.rowsPerSecond >= NEARLY * max.rowsPerSecond) as RunCost;
  const { rows, rowsPerSecond } = knee;
  return { rows, length, threads, rowsPerSecond, share: rowsPerSecond / max.rowsPerSecond, maxAtRows: max.rows };
}

/** What the runs say of batching, where it is of little use, a sentence each. */
export function findingsOf({ table, length, threads }: Measurement, { rows: atKnee }: Knee): string[] {
  const runs = table
    .filter((run) => run.length === length && run.threads === threads)
    .toSorted((a, b) => a.rows - b.rows);
  const [fewest, max] = [runs[0], runs.at(-1)];
  if (fewest === undefined || max === undefined || fewest === max || atKnee > fewest.rows) return [];
  const times = (max.rowsPerSecond / fewest.rowsPerSecond).toFixed(2);
  return [
    `rows gain nothing from sharing a run: ${max.rows} of them give ${times} times the rows a second of ${fewest.rows}`,
  ];
}

/** What `--json` prints. */
export function printedOf({ measured, knee, recommendation, answer }: ProfileReport) {
  const { path: _, requestBytes: __, ...printed } = measured;
  const { candidates, forms, breakEvens } = answer;
  return { ...printed, knee, recommendation, candidates, forms, breakEvens };
}

/** The settings that are recommended, and why. */
interface Recommendation {
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly maxBatchRows: number;
  readonly memoryMb: number;
  readonly maximumConcurrency: number;
  readonly reason: string;
  /** US dollars. */
  readonly dollarsPerMillionRows: number;
  /** What belongs into the context of cdk.json. */
  readonly context: Readonly<Record<string, number | string>>;
}

/** @param architecture of the function, where it is not the construct's default */
export function recommendationOf({ chosen, reason }: SettingsAnswer, architecture: string | undefined): Recommendation {
  const { batchSize, windowSeconds, maxBatchRows, memoryMb, maximumConcurrency } = chosen;
  const settings = { batchSize, windowSeconds, maxBatchRows, memoryMb, maximumConcurrency };
  return {
    ...settings,
    reason,
    dollarsPerMillionRows: chosen.dollarsPerMillionRows.total,
    context: { ...settings, ...(architecture === undefined ? {} : { architecture }) },
  };
}

/** What holds of all figures, a sentence each. */
export function notesOf(
  { prices, architecture, messages }: SettingsQuestion,
  { coldStart }: Measurement,
  memoryMb: number,
): string[] {
  const { messageMs, requestMs, roundTripMs } = HOST_COSTS;
  const here = arch() === 'arm64' ? 'arm64' : 'x86_64';
  const startMs = coldStart.processMs + coldStart.libraryMs + coldStart.loadMs + coldStart.warmUpMs;
  const startSeconds = startMs / 1000 / Math.min(1, vcpusOf(memoryMb));
  return [
    `Runs were timed on this machine (${here}); a function's share of a vCPU is taken to be as fast${here === architecture ? '' : `, also on ${architecture}, where nothing was measured`}.`,
    `A new environment also starts, about ${startSeconds.toFixed(1)} s with ${memoryMb} MB, and longer where its image is not cached; its first messages wait for that, which no age above holds.`,
    `Peak memory is that of a process with the model alone; a function also holds its clients and its event.`,
    `Besides the runs, an invocation takes ${messageMs} ms a message, ${requestMs} ms a request and ${roundTripMs} ms for calls to SQS: assumed, not measured here.`,
    `A request is taken to have ${messages.messageBytes / messages.requestsPerMessage} bytes, a result ${messages.resultBytes / messages.requestsPerMessage}.`,
    `Prices of ${prices.date}, ${prices.region}, without logs, metrics, alarms and storage. What is not measured has no price.`,
  ];
}

const MAX_CANDIDATES = 10;

/** What was found, for a terminal. */
export function renderProfile({ measured, knee, answer, recommendation, asked, notes }: ProfileReport): string {
  const shown = answer.candidates.slice(0, MAX_CANDIDATES);
  const sections = [
    `${measured.model}: ${describeSafety(measured)}\n${describeStart(measured)}`,
    aligned(
      ['rows', 'length', 'threads', 'median ms', 'spread', 'rows/s', 'peak MiB'],
      measured.table.map((run) => [
        count(run.rows),
        count(run.length),
        count(run.threads),
        run.medianMs.toFixed(3),
        percent(run.spread),
        count(run.rowsPerSecond),
        count(run.peakRssBytes / 1024 / 1024),
      ]),
    ),
    ...(measured.table.some(({ rows }) => rows !== knee.rows) ? [describeKnee(knee, measured)] : []),
    ...(measured.findings.length === 0 ? [] : [measured.findings.map((finding) => `! ${finding}`).join('\n')]),
    `${asked}; ${answer.tried} settings tried, the best of each batch size and window:`,
    aligned(
      CANDIDATE_HEADS,
      withChosen(shown, answer).map((one) => candidateRow(one, answer)),
    ),
    'US dollars for a million rows with the recommended settings:',
    describeForms(answer),
    ...(answer.breakEvens.length === 0 ? [] : [answer.breakEvens.map(describeBreakEven).join('\n')]),
    `Recommended: ${JSON.stringify(recommendation.context)}\nReason: ${recommendation.reason}.`,
    notes.map((note) => `- ${note}`).join('\n'),
  ];
  return `${sections.join('\n\n')}\n`;
}

function describeKnee({ rows, length, share, maxAtRows }: Knee, { table, threads }: Measurement): string {
  const ofLength = table.every((run) => run.length === length) ? '' : ` of length ${length}`;
  const what = `runs of ${count(rows)} ${rows === 1 ? 'row' : 'rows'}${ofLength}`;
  const on = `on ${threads} ${threads === 1 ? 'thread' : 'threads'}, as deployed here`;
  if (maxAtRows === rows) return `Knee: ${what} give the most rows a second ${on}.`;
  return `Knee: ${what} give ${percent(share)} of the most rows a second, which ${count(maxAtRows)} rows give, ${on}.`;
}

function describeStart({ coldStart: { processMs, libraryMs, loadMs, warmUpMs } }: Measurement): string {
  const seconds = (ms: number): string => (ms / 1000).toFixed(2);
  return (
    `Cold start ${seconds(processMs + libraryMs + loadMs + warmUpMs)} s: process ${seconds(processMs)}, library ` +
    `${seconds(libraryMs)}, model ${seconds(loadMs)}, warm-up and checks ${seconds(warmUpMs)}`
  );
}

/** Forms on which nothing was measured stand in one line, without a price. */
function describeForms({ forms }: SettingsAnswer): string {
  const parts = ['compute', 'invocations', 'requestQueue', 'resultQueue', 'idle', 'total'] as const;
  const rows = forms.flatMap(({ name, dollarsPerMillionRows: dollars }) =>
    dollars === null ? [] : [[name, ...parts.map((part) => dollars[part].toFixed(3))]],
  );
  const blank = forms.filter(({ dollarsPerMillionRows }) => dollarsPerMillionRows === null).map(({ name }) => name);
  const table = aligned(['form', 'compute', 'invocations', 'requests', 'results', 'idle', 'total'], rows);
  return blank.length === 0 ? table : `${table}\nNot measured: ${blank.join(', ')}.`;
}

const CANDIDATE_HEADS = [
  '',
  'batch size',
  'window s',
  'memory MB',
  'concurrency',
  'messages',
  'fill',
  'micro-batches',
  'p50 age ms',
  'p99 age ms',
  '$/M rows',
];

function withChosen(shown: readonly Expectation[], { chosen }: SettingsAnswer): readonly Expectation[] {
  return shown.includes(chosen) ? shown : [...shown, chosen];
}

function candidateRow(one: Expectation, { chosen }: SettingsAnswer): string[] {
  return [
    one === chosen ? '>' : '',
    count(one.batchSize),
    count(one.windowSeconds),
    count(one.memoryMb),
    count(one.maximumConcurrency),
    one.messagesPerInvocation.toFixed(1),
    `${(100 * one.fill).toFixed(0)} %`,
    one.microBatchesPerInvocation.toFixed(1),
    count(one.p50AgeMs),
    count(one.p99AgeMs),
    one.dollarsPerMillionRows.total.toFixed(3),
  ];
}

function describeSafety({ safety: { verdict, maxDifference, probes } }: Measurement): string {
  const difference =
    maxDifference === null
      ? ''
      : maxDifference === 0
        ? ', answered alike'
        : `, whose answers differed by ${maxDifference.toExponential(0)} at most`;
  return `${VERDICTS[verdict]}${probes === 0 ? '' : ` (${probes} probes${difference})`}`;
}

const VERDICTS: Readonly<Record<Measurement['safety']['verdict'], string>> = {
  independent: 'rows are independent',
  trusted: 'rows share runs unchecked, as config.json says',
  unknown: 'whether rows are independent is unknown, so they run alone until requests have proved it',
  dependent: 'rows depend on each other, so they run alone',
  alone: 'rows run alone, as config.json says',
};

function describeBreakEven({ messagesPerSecond, cheaper, than }: SettingsAnswer['breakEvens'][number]): string {
  return `From ${Number(messagesPerSecond.toPrecision(2))} messages/s on, ${cheaper} is cheaper than ${than}.`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Columns of one width each, numbers to the right, words in the first to the left. */
function aligned(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [heads, ...rows];
  const widths = heads.map((_, column) => Math.max(...lines.map((cells) => (cells[column] ?? '').length)));
  const isText = heads[0] === 'form';
  return lines
    .map((cells) =>
      cells
        .map((cell, column) =>
          column === 0 && isText ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
