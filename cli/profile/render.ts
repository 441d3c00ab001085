import type { MeasuredModel } from './measureRuns.ts';
import type { Recommendation } from './recommendation.ts';
import type { Expectation } from './settings/expect.ts';
import type { SettingsAnswer } from './settings/settings.ts';

export interface Profile {
  readonly measured: MeasuredModel;
  readonly answer: SettingsAnswer;
  readonly recommendation: Recommendation;
  /** What was looked for, in words. */
  readonly question: string;
  /** What holds of all figures, a line each. */
  readonly notes: readonly string[];
}

const MOST_CANDIDATES = 10;

/** What was found, for a terminal. */
export function renderProfile({ measured, answer, recommendation, question, notes }: Profile): string {
  const shown = answer.candidates.slice(0, MOST_CANDIDATES);
  const sections = [
    `${measured.model}: ${describeSafety(measured)}, loaded in ${measured.loadSeconds.toFixed(2)} s`,
    aligned(
      ['rows', 'length', 'threads', 'median ms', 'rows/s', 'peak MiB'],
      measured.table.map((run) => [
        count(run.rows),
        count(run.length),
        count(run.threads),
        run.medianMs.toFixed(3),
        count(run.rowsPerSecond),
        count(run.peakRssBytes / 1024 / 1024),
      ]),
    ),
    `${question}; ${answer.tried} settings tried, the best of each batch size and window:`,
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

function describeSafety({ safety: { verdict, maxDifference } }: MeasuredModel): string {
  const difference = maxDifference === null ? '' : ` (answers differed by ${maxDifference.toExponential(0)} at most)`;
  return `${VERDICTS[verdict]}${difference}`;
}

const VERDICTS: Readonly<Record<MeasuredModel['safety']['verdict'], string>> = {
  independent: 'rows are independent',
  trusted: 'rows share runs unchecked, as config.json says',
  unknown: 'whether rows are independent is unknown, so they run alone until requests have proved it',
  dependent: 'rows depend on each other, so they run alone',
  alone: 'rows run alone, as config.json says',
};

function describeBreakEven({ messagesPerSecond, cheaper, than }: SettingsAnswer['breakEvens'][number]): string {
  return `From ${Number(messagesPerSecond.toPrecision(2))} messages/s on, ${cheaper} is cheaper than ${than}.`;
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
