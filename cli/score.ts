import { resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { openModelAlone } from '../lambda/adapters/onnx/repository/openModelAlone.ts';
import type { ScoringLimits } from '../lambda/core/scoreRecords.ts';
import { RANGES, RANGES_BY_MEMORY } from '../lambda/limits/configuration.ts';
import { parseCommand, UsageError, wholeNumber } from './arguments.ts';
import { progressBar } from './bar.ts';
import { openOutput } from './fileErrors.ts';
import { type InputFile, inputFile } from './inputFile.ts';
import { listenForInterruption } from './interruption.ts';
import { batchesOfLines } from './lineBatches.ts';
import { createOfflineScoring, type OfflineScoring, type OfflineSummary } from './offline/scoreLines.ts';

const HELP = `Usage: batchscore score MODEL FILE [options]

Scores a file of requests, one JSON request a line, without a queue: the same code as on AWS,
in constant memory. Results are written in the order of the lines, one a line; the number of
the line is the message_id.

  MODEL             a model folder such as models/digits, or a .onnx file
  FILE              the requests, or - for stdin

  --out FILE        where results go (default: stdout)
  --batch-size N    lines scored together (default 1000)
  --max-rows N      most rows in one run (default ${RANGES.maxBatchRows.default})
  --providers LIST  execution providers, first choice first (default cpu)
  --json            print the summary as one JSON object
  --help            show this

The summary goes to stdout, or to stderr when the results go to stdout.
Exit code: 0 all lines scored, 3 some were answered with an error, 1 it could not go on, 2 wrong usage,
130 stopped by Ctrl-C, 143 by SIGTERM.
`;

/** What is read at a time: it bounds the memory. */
const CHARACTERS_A_BATCH = 16 * 1024 * 1024;
const SOME_LINES_FAILED = 3;

async function run(args: readonly string[]): Promise<number> {
  const { options, positionals } = parseCommand(args, ['MODEL', 'FILE'], {
    out: { type: 'string' },
    'batch-size': { type: 'string', default: '1000' },
    'max-rows': { type: 'string', default: String(RANGES.maxBatchRows.default) },
    providers: { type: 'string', default: 'cpu' },
    json: { type: 'boolean', default: false },
  });
  const [modelPath = '', file = ''] = positionals;
  const lines = wholeNumber('--batch-size', options['batch-size'], 1, 100_000);
  const { least, most } = RANGES.maxBatchRows;
  const maxBatchRows = wholeNumber('--max-rows', options['max-rows'], least, most);
  if (options.out !== undefined && file !== '-' && resolve(options.out) === resolve(file)) {
    throw new UsageError(`--out: expected another file than the requests, got ${options.out}`);
  }

  const input = await inputFile(file);
  const warn = (message: string): void => void process.stderr.write(`${message}\n`);
  const models = await openModelAlone(modelPath, {
    maxBatchRows,
    maxBatchElements: RANGES.maxBatchElements.default,
    providers: options.providers.split(','),
    allowProviderFallback: false,
    warn,
  });
  try {
    const startedAt = performance.now();
    const scoring = createOfflineScoring(models, LIMITS, warn);
    const exitCode = await scoreAll(input, lines, scoring, options.out);
    const seconds = (performance.now() - startedAt) / 1000;
    const summary = options.json ? JSON.stringify({ ...scoring.summary, seconds }) : describe(scoring.summary, seconds);
    (options.out === undefined ? process.stderr : process.stdout).write(`${summary}\n`);
    if (exitCode !== undefined) process.stderr.write('stopped; run again, it begins with the first line\n');
    return exitCode ?? (scoring.summary.scored === scoring.summary.lines ? 0 : SOME_LINES_FAILED);
  } finally {
    await models.close();
  }
}

const LIMITS: ScoringLimits = {
  maxRequestRows: RANGES.maxRequestRows.most,
  maxRequestsPerMessage: RANGES.maxRequestsPerMessage.most,
  maxAnswerCharacters: RANGES_BY_MEMORY.maxAnswerCharacters.most,
  maxBatchElements: RANGES.maxBatchElements.default,
  deadlineMarginMs: 0,
};

/** @returns the exit code where SIGINT or SIGTERM stopped it; what was scored by then is written */
async function scoreAll(
  input: InputFile,
  lines: number,
  scoring: OfflineScoring,
  out: string | undefined,
): Promise<number | undefined> {
  const bar = progressBar('scoring', input.bytes);
  const { signal, exitCode, finished } = listenForInterruption('the lines that are being scored', bar.stop);
  const results = async function* (): AsyncGenerator<string> {
    for await (const batch of batchesOfLines(input.stream, { lines, characters: CHARACTERS_A_BATCH }, signal)) {
      yield `${(await scoring.score(batch)).join('\n')}\n`;
      const errors = Object.values(scoring.summary.errors).reduce((sum, count) => sum + count, 0);
      bar.update(input.bytesRead(), errors);
    }
  };
  try {
    const output = out === undefined ? process.stdout : (await openOutput(out, 'w')).createWriteStream();
    await pipeline(results, output, { end: output !== process.stdout });
  } finally {
    bar.stop();
    finished();
  }
  return exitCode();
}

export const score = { help: HELP, run };

function describe({ lines, scored, errors, microBatches, rows }: OfflineSummary, seconds: number): string {
  const failed = Object.entries(errors).map(([code, count]) => `, ${code} ${count}`);
  const mean = microBatches === 0 ? 0 : rows / microBatches;
  return (
    `${lines} lines in ${seconds.toFixed(2)} s (${Math.round(lines / seconds)}/s): ${scored} scored${failed.join('')}; ` +
    `${microBatches} ${microBatches === 1 ? 'micro-batch' : 'micro-batches'} of ${mean.toFixed(1)} rows on average`
  );
}
