import type { Measurement } from './measure/measureModel.ts';
import type { Knee, ProfileReport } from './report.ts';
import type { Expectation } from './settings/expect.ts';
import type { SettingsAnswer } from './settings/settings.ts';

const MOST_CANDIDATES = 10;

/** What was found, for a terminal. */
export function renderProfile({ measured, knee, answer, recommendation, asked, notes }: ProfileReport): string {
  const shown = answer.candidates.slice(0, MOST_CANDIDATES);
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

function describeKnee({ rows, length, share, mostAtRows }: Knee, { table, threads }: Measurement): string {
  const ofLength = table.every((run) => run.length === length) ? '' : ` of length ${length}`;
  const what = `runs of ${count(rows)} ${rows === 1 ? 'row' : 'rows'}${ofLength}`;
  const on = `on ${threads} ${threads === 1 ? 'thread' : 'threads'}, as deployed here`;
  if (mostAtRows === rows) return `Knee: ${what} give the most rows a second ${on}.`;
  return `Knee: ${what} give ${percent(share)} of the most rows a second, which ${count(mostAtRows)} rows give, ${on}.`;
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
