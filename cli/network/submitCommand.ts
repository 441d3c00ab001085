import { MAX_REQUESTS_PER_MESSAGE } from '../../client/clientOptions.ts';
import { type Batchscore, SubmitError } from '../../client/index.ts';
import { messageOf, plural, preview } from '../../lambda/core/failure.ts';
import { isObject, parseIfJson } from '../../lambda/core/json.ts';
import { isShallow } from '../../lambda/core/outline.ts';
import { isRequest } from '../../lambda/jobs/rowRequests.ts';
import { parseCommand, type Streams, UsageError, wholeNumber } from '../arguments.ts';
import { listenForInterruption, progressBar, writeLine } from '../terminal.ts';
import { batchesOfLines, failedLine, inputFile, type Line } from '../textFiles.ts';
import { connectToSubmit, DEPLOYMENT_HELP, DEPLOYMENT_OPTIONS } from './deployment.ts';
import { type IdsFile, openIdsFile } from './idsFile.ts';

const HELP = `Usage: batchscore submit FILE [options]

Puts requests on the request queue, one JSON request a line, and writes the message ID of each
to an ids file as it is taken. Run again after it was stopped, it goes on where the ids file
ends; after a crash, or a second Ctrl-C, up to 200 requests may be sent twice, or 10,000 with
--pack. It refuses an ids file of another queue, or of requests that FILE no longer holds.

  FILE                    the requests, or - for stdin

  --ids FILE              the ids file (default: FILE.ids; required with stdin)
  --pack N                put up to N requests into one message, at most 10,000, and at most
                          64 KiB of them, which SQS bills as one request (default: 1); their
                          message IDs are then followed by / and their position
  --group NAME            the message group of all requests; a FIFO queue needs one of these two
  --group-by PATH         the message group of each request is what it has there, a text or a
                          number, such as id or parameters.customer
${DEPLOYMENT_HELP}
  --urgent                send to the queue for urgent requests, the urgentQueueUrl of FILE of --stack
  --json                  print the summary as one JSON object
  --help                  show this

Exit code: 0 all were taken, 1 not all, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
`;

/** Maximum size of a batch. The ids file is updated after each batch. */
const BATCH = { lines: 200, characters: 8 * 1024 * 1024 };
const PACKED_BATCH = { ...BATCH, lines: MAX_REQUESTS_PER_MESSAGE };

async function run(args: readonly string[], streams: Streams): Promise<number> {
  const { options, positionals } = parseCommand(args, ['FILE'], {
    ...DEPLOYMENT_OPTIONS,
    ids: { type: 'string' },
    pack: { type: 'string', default: '1' },
    group: { type: 'string' },
    'group-by': { type: 'string' },
    urgent: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  });
  const [file = ''] = positionals;
  const idsPath = options.ids ?? (file === '-' ? undefined : `${file}.ids`);
  if (idsPath === undefined) throw new UsageError('expected --ids FILE with stdin, got none');
  const requestsPerMessage = wholeNumber('--pack', options.pack, 1, MAX_REQUESTS_PER_MESSAGE);
  const groupOf = groupsOf(options.group, options['group-by']);
  const input = await inputFile(file, streams);
  const { client, close, isFifo, requestQueues } = await connectToSubmit(options, requestsPerMessage);
  if (isFifo && groupOf === undefined) {
    await close();
    throw new UsageError(
      'expected --group NAME or --group-by PATH, as the request queue is a FIFO queue, got neither; say which requests are kept in order',
    );
  }
  const bar = progressBar('submitting', input.bytes === undefined ? undefined : 1);
  const { signal, exitCode, finished } = listenForInterruption('the requests that are being sent', bar.stop);
  let ids: IdsFile | undefined;
  let submitted = 0;
  let bytesSubmitted = 0;
  try {
    for await (const batch of batchesOfLines(input, requestsPerMessage === 1 ? BATCH : PACKED_BATCH, signal)) {
      if (ids === undefined) {
        refuseOtherFiles(file, batch[0]);
        ids = await openIdsFile(idsPath, file === '-' ? 'stdin' : file, await requestQueues());
      }
      for (const { number, failed } of batch) if (failed !== undefined) throw failedLine(failed, number);
      const left = ids.unsubmitted(batch);
      await submitBatch(client, left, { groupOf, urgent: options.urgent }, ids);
      submitted += left.length;
      for (const { text } of batch) bytesSubmitted += Buffer.byteLength(text) + 1;
      bar.update(input.shareOf(bytesSubmitted) ?? 0);
    }
    if (!signal.aborted) {
      if (ids === undefined) refuseOtherFiles(file, undefined);
      else ids.refuseMissing();
    }
  } finally {
    bar.stop();
    await ids?.close();
    await close();
    finished();
  }
  const before = ids?.before ?? 0;
  const summary = { submitted, before, ids: idsPath };
  const sentence = `${plural(submitted, 'request')} submitted (${before} before), their message IDs are in ${idsPath}`;
  writeLine(streams.stdout, options.json ? JSON.stringify(summary) : sentence);
  if (signal.aborted) writeLine(streams.stderr, 'stopped; run the same command again to go on');
  return exitCode() ?? 0;
}

/**
 * @param first first line that is not blank
 * @throws Error describing the file if it contains no requests, and the command that accepts it
 */
function refuseOtherFiles(file: string, first: Line | undefined): void {
  const name = file === '-' ? 'stdin' : file;
  const expected = 'expected a request on each line, as JSON with inputs, instances or model_name';
  if (first === undefined) throw new Error(`${name}: ${expected}, got none; nothing was sent`);
  if (first.failed !== undefined) throw failedLine(first.failed, first.number);
  const other = otherThanRequest(first.text, name);
  if (other !== undefined) throw new Error(`${name}: line ${first.number}: ${expected}, got ${other}`);
}

const SCORE_DATA =
  'score a data file here with batchscore score MODEL FILE, or one in S3 with batchscore job submit s3://BUCKET/KEY; ' +
  'docs/recipes.md (A pipeline over a table) writes requests of one';

/** @returns a description of a line that is neither a request nor an array of requests, and what to do with it */
function otherThanRequest(text: string, name: string): string | undefined {
  if (!isShallow(text)) return `JSON of more arrays and objects than requests have; ${SCORE_DATA}`;
  const value = parseIfJson(text);
  if (value === undefined) return otherThanJson(text, name);
  if (Array.isArray(value)) return otherThanPacked(value);
  if (!isObject(value)) return `${value === null ? 'null' : `a ${typeof value}`}; ${SCORE_DATA}`;
  if (isRequest(value)) return undefined;
  const keys = Object.keys(value);
  const shown = `${keys.slice(0, 3).map(preview).join(', ')}${keys.length > 3 ? ', …' : ''}`;
  return `an object with the keys ${shown}; ${SCORE_DATA}; a request in a model's own form needs model_name as well`;
}

/** Describes an array that is no packed message. Its requests may be in a model's own form, with model_name. */
function otherThanPacked(values: readonly unknown[]): string | undefined {
  const other = values.find((value) => !isObject(value) || !isRequest(value));
  if (other === undefined) return undefined;
  const one = isObject(other) ? 'an object without inputs' : preview(other);
  return `an array of ${plural(values.length, 'element')}, one of them ${one}; ${SCORE_DATA}`;
}

function otherThanJson(text: string, name: string): string {
  if (/^\s*[{[]/.test(text)) return 'a part of JSON; write each request on one line, as jq -c . does';
  if (/\.csv$/i.test(name) || /[,;\t]/.test(text)) return `CSV; ${SCORE_DATA}`;
  return 'text that is no JSON; check the path';
}

type GroupOf = (line: Line) => string;

/**
 * @param all group for all lines
 * @param path path to the group within each request: keys with dots between them
 * @throws UsageError if both are given
 */
function groupsOf(all: string | undefined, path: string | undefined): GroupOf | undefined {
  if (all !== undefined && path !== undefined) throw new UsageError('expected --group or --group-by, got both');
  if (all !== undefined) return () => all;
  if (path === undefined) return undefined;
  return ({ number, text }) => {
    const value = valueAt(path, parseIfJson(text));
    if (typeof value === 'number' || (typeof value === 'string' && value !== '')) return String(value);
    throw new Error(
      `line ${number}: expected a text or a number at ${path}, its message group, got ` +
        `${value === undefined ? 'nothing there' : preview(value)}; correct that, then run the same command again`,
    );
  };
}

function valueAt(path: string, request: unknown): unknown {
  let value = request;
  for (const key of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

/** @throws Error naming the first line that was not accepted. The ids file contains the accepted ones. */
async function submitBatch(
  client: Batchscore,
  batch: readonly Line[],
  { groupOf, urgent }: { readonly groupOf: GroupOf | undefined; readonly urgent: boolean },
  ids: IdsFile,
): Promise<void> {
  try {
    const requests = batch.map((line) => ({ body: line.text, group: groupOf?.(line), urgent }));
    await ids.append(batch, await client.submit(requests));
  } catch (error) {
    if (!(error instanceof SubmitError)) throw error;
    await ids.append(batch, error.accepted);
    const line = batch[error.index]?.number ?? batch[0]?.number;
    const reason = messageOf(error.cause).replace(/\.$/, '');
    const cure = error.retryable
      ? 'run the same command again to go on'
      : 'correct that, then run the same command again';
    throw new Error(`line ${line}: ${reason}; ${cure}`, { cause: error });
  }
}

export const submit = { help: HELP, run };
