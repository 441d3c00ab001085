import * as z from 'zod';
import {
  CollectTimeoutError,
  type MessageStatus,
  type OutputTensors,
  type ScoringResult,
  type SingleResult,
} from '../../client/index.ts';
import { messageOf, plural } from '../../lambda/core/failure.ts';
import { encodeData } from '../../lambda/core/values.ts';
import { parseCommand, type Streams, UsageError, wholeNumber } from '../arguments.ts';
import { listenForInterruption, progressBar, writeLine } from '../terminal.ts';
import { refuseFolder, refuseMissingFolder, refuseOverwriting } from '../textFiles.ts';
import { connectToCollect, connectToSubmit, DEPLOYMENT_HELP, DEPLOYMENT_OPTIONS } from './deployment.ts';
import { otherQueues, type Queue, readIds } from './idsFile.ts';
import { openLineFile } from './lineFile.ts';

const HELP = `Usage: batchscore collect IDS --out FILE [options]

Gets the results of the message IDs in an ids file, as batchscore submit writes it, from the
result table or else from the result queue, and appends them to FILE as they come, one JSON
result a line. Run again, it gets those that are not in FILE yet. Results of other IDs stay on
a standard result queue; those of a FIFO queue, which would lock their groups, go to FILE too.

  IDS                     the ids file

  --out FILE              where results go
  --timeout S             longest wait in seconds (default 300)
${DEPLOYMENT_HELP}
  --json                  print the summary as one JSON object
  --help                  show this

Exit code: 0 all are there and scored, 3 all are there, some with an error, 1 some are missing,
2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
`;

const SOME_MISSING = 1;
const SOME_FAILED = 3;

async function run(args: readonly string[], streams: Streams): Promise<number> {
  const { options, positionals } = parseCommand(args, ['IDS'], {
    ...DEPLOYMENT_OPTIONS,
    out: { type: 'string' },
    timeout: { type: 'string', default: '300' },
    json: { type: 'boolean', default: false },
  });
  const [idsPath = ''] = positionals;
  if (options.out === undefined) throw new UsageError('expected --out FILE, got none');
  const timeoutMs = 1000 * wholeNumber('--timeout', options.timeout, 1, 86_400);
  const { queues, messageIds } = await readIds(idsPath);
  await refuseMissingFolder(options.out);
  await refuseFolder(options.out);
  await refuseOverwriting('--out', options.out, [idsPath]);

  let opened: ResultsFile | undefined;
  const unclaimed = (result: ScoringResult) => opened?.append(resultText(result));
  const { client, requestQueues, close } = await connectToCollect(options, unclaimed);
  const open = async (): Promise<ResultsFile> => {
    if (queues.size > 0) await refuseOtherIds(idsPath, queues, requestQueues, streams);
    return await openResultsFile(options.out ?? '', new Set(messageIds));
  };
  const results = await open().catch(async (error) => {
    await close();
    throw error;
  });
  opened = results;
  const bar = progressBar('collecting', messageIds.length);
  const { signal, exitCode, finished } = listenForInterruption('what was received', bar.stop);
  try {
    const { wanted, collected } = sortOut(messageIds, results.messageIds);
    const arriving = client.collect(wanted, { timeoutMs, signal, collected });
    for (let next = await arriving.next(); !next.done; next = await arriving.next()) {
      const result = next.value;
      if (results.messageIds.has(result.messageId)) continue;
      // The result cannot be fetched now. It stays on the queue for the next run.
      if ('error' in result && result.error.retryable) continue;
      // Requesting the next result deletes this one from the queue, so this one must be in the file by then.
      try {
        await results.append(resultText(result));
      } catch (error) {
        await arriving.throw(error);
      }
      bar.update(results.collected(), results.failed());
    }
  } catch (error) {
    if (error instanceof CollectTimeoutError) {
      bar.stop();
      writeLine(streams.stderr, error.message);
    } else if (error !== signal.reason) throw error;
  } finally {
    bar.stop();
    await close();
    await results.close();
    finished();
  }
  const missing = messageIds.filter((messageId) => !results.messageIds.has(messageId)).length;
  const collected = messageIds.length - missing;
  const summary = { collected, missing, failed: results.failed(), out: options.out };
  const others = missing > 0 ? `, ${missing} missing` : '';
  const are = messageIds.length === 1 ? 'is' : 'are';
  const there = `${collected} of ${plural(messageIds.length, 'result')} ${are} in ${options.out}`;
  const sentence = `${there}, ${summary.failed} with an error${others}`;
  writeLine(streams.stdout, options.json ? JSON.stringify(summary) : sentence);
  if (results.others() > 0) {
    writeLine(streams.stderr, `${options.out} also holds ${plural(results.others(), 'result')} of other message IDs`);
  }
  if (signal.aborted) writeLine(streams.stderr, 'stopped; run the same command again to get the others');
  if (missing > 0) return exitCode() ?? SOME_MISSING;
  return summary.failed > 0 ? SOME_FAILED : 0;
}

/**
 * Refuses message IDs of another deployment, or of queues that were created again since. If the consumer lacks the
 * permission to describe the request queue, results are collected without this check.
 *
 * @throws Error naming both
 */
async function refuseOtherIds(
  path: string,
  noted: ReadonlySet<string>,
  requestQueues: () => Promise<Queue[]>,
  { stderr }: Streams,
): Promise<void> {
  const queues = await requestQueues().catch((error) => {
    writeLine(stderr, `not checked: whether ${path} is of this deployment; ${messageOf(error)}`);
    return [];
  });
  if (queues.length === 0) return;
  const [other] = [...noted].flatMap((digest) => otherQueues(digest, queues) ?? []);
  if (other === undefined) return;
  throw new Error(`${path}: ${other}; name the deployment that it was submitted to, or submit the requests again`);
}

/**
 * Splits the IDs into those to wait for and those whose messages can be deleted. The result of a packed message is
 * deleted only after all of its requests are collected. If a crash left a message whose results are all in the file, it
 * is dropped.
 */
function sortOut(ids: readonly string[], there: ReadonlySet<string>) {
  const messageOf = (id: string): string => id.split('/')[0] ?? id;
  const unfinished = new Set(ids.filter((id) => !there.has(id)).map(messageOf));
  return {
    wanted: ids.filter((id) => unfinished.has(messageOf(id))),
    collected: new Set(Array.from(there, messageOf).filter((messageId) => !unfinished.has(messageId))),
  };
}

export const collect = { help: HELP, run };

/** Formats a result as one line of JSON as in docs/message-format.md. Binary outputs are written as `data`. */
function resultText(result: ScoringResult): string {
  const { messageId } = result;
  return 'results' in result
    ? `[${result.results.map((one) => singleText(messageId, one)).join(',')}]`
    : singleText(messageId, result);
}

function singleText(messageId: string, result: SingleResult): string {
  const fields = [`"message_id":${JSON.stringify(messageId)}`];
  const add = (key: string, value: unknown): void => {
    if (value !== undefined) fields.push(`"${key}":${JSON.stringify(value)}`);
  };
  add('id', result.id);
  if ('error' in result) {
    add('code', result.error.code);
    add('error', result.error.message);
    return `{${fields.join(',')}}`;
  }
  add('model_name', result.model);
  add('model_version', result.version);
  if ('outputs' in result) fields.push(`"outputs":[${outputTexts(result.outputs).join(',')}]`);
  else if ('predictions' in result) add('predictions', result.predictions);
  else add('result', result.result);
  return `{${fields.join(',')}}`;
}

function outputTexts(outputs: OutputTensors): string[] {
  return Object.entries(outputs).map(
    ([name, { datatype, shape, data }]) =>
      `{"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${shape.join(',')}],` +
      `"data":[${encodeData(datatype, data)}]}`,
  );
}

type ResultsFile = Awaited<ReturnType<typeof openResultsFile>>;

const ANSWER = z.object({ message_id: z.string(), code: z.string().optional() });
const RESULT = z.union([ANSWER.transform((answer) => [answer]), z.array(ANSWER).min(1)]);

/**
 * Opens or creates a file of collected results, one JSON result per line. If a crash cut the last line short, its result is still on the queue, so the line is
 * removed.
 *
 * @param wanted message IDs whose results are collected
 * @throws Error naming the line that is not a result
 */
async function openResultsFile(path: string, wanted: ReadonlySet<string>) {
  const messageIds = new Set<string>();
  let [collected, failed, others] = [0, 0, 0];
  const count = (text: string): void => {
    const answers = parseResult(text);
    for (const { message_id: messageId } of answers) messageIds.add(messageId);
    if (!answers.some(({ message_id: messageId }) => wanted.has(messageId))) {
      others += 1;
      return;
    }
    collected += 1;
    if (answers.some(({ code }) => code !== undefined)) failed += 1;
  };
  const file = await openLineFile(path, ['{"message_id":', '[{"message_id":'], count);
  return {
    messageIds,
    collected: () => collected,
    /** Returns the number of collected results that are or contain an error. */
    failed: () => failed,
    others: () => others,
    async append(text: string): Promise<void> {
      await file.append(`${text}\n`);
      count(text);
    },
    close: file.close,
  };
}

function parseResult(text: string): z.infer<typeof RESULT> {
  try {
    return RESULT.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error('expected a result; give another --out FILE', { cause });
  }
}

const STATUS_HELP = `Usage: batchscore status MESSAGE_ID [options]

Says what became of a message, from the stores that can tell, and what could not be told.
Each look receives up to 1,000 dead letters once more, and gives them back at once.

${DEPLOYMENT_HELP}
  --json                  print it as one JSON object
  --help                  show this

Exit code: 0 answered, 3 answered with an error, or in the dead letters, 1 neither, 2 wrong usage.
`;

async function runStatus(args: readonly string[], streams: Streams): Promise<number> {
  const json = { type: 'boolean', default: false } as const;
  const { options, positionals } = parseCommand(args, ['MESSAGE_ID'], { ...DEPLOYMENT_OPTIONS, json });
  const { client, close } = await connectToSubmit(options);
  try {
    const [id = ''] = positionals;
    const { result, ...known } = await client.status(id).catch(asUsage);
    const { code, message: error } = (result !== undefined && 'error' in result && result.error) || {};
    const failed = result !== undefined && 'results' in result ? result.results.filter((one) => 'error' in one) : [];
    const codes = [...new Set(failed.map((one) => ('error' in one ? one.error.code : '')))].join(', ');
    const ofRequests = failed.length === 0 ? '' : `, ${plural(failed.length, 'request')} of it with ${codes}`;
    const lines = [`${id}: ${inWords(known)}${code === undefined ? ofRequests : `, with ${code}: ${error}`}`];
    for (const one of known.notTold) lines.push(`not told: ${one}`);
    const head = JSON.stringify({ ...known, messageId: id, code: code ?? (codes || undefined), error });
    const whole = result === undefined ? head : `${head.slice(0, -1)},"result":${resultText(result)}}`;
    for (const line of options.json ? [whole] : lines) writeLine(streams.stdout, line);
    if (known.state === 'dead' || code !== undefined || failed.length > 0) return SOME_FAILED;
    return known.state === 'answered' ? 0 : SOME_MISSING;
  } finally {
    await close();
  }
}

/** Converts a TypeError, which means that the file contains an ID that `submit` never returns. */
function asUsage(error: unknown): never {
  throw error instanceof TypeError ? new UsageError(error.message) : error;
}

function inWords({ state, where, receives, sentAt }: MessageStatus): string {
  return {
    answered: `answered, in the result table ${where}`,
    dead: `in the dead letters ${where}, sent ${sentAt?.toISOString()}, received ${receives} times with this look; the log line "records go back to SQS" has the reason`,
    pending: 'not found, perhaps still on its way',
    unknown: 'not found where it could be asked for, and nothing is on its way',
  }[state];
}

export const status = { help: STATUS_HELP, run: runStatus };
