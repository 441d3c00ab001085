import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import pLimit from 'p-limit';
import { fileEvent } from '../../../cli/local/localJobs.ts';
import { startLocalStates } from '../../../cli/local/localStates.ts';
import type { Ended } from '../../../cli/local/runJob.ts';
import { createJobStorage } from '../../../lambda/aws/jobStorage.ts';
import { JOB_PREFIXES } from '../../../lambda/core/limits.ts';
import { startHandler } from '../../helpers/processes.ts';
import { type Account, emptyAccount } from './account.ts';
import { endAtExit, type Variables } from './fleets.ts';
import { echo, gist } from './messages.ts';

export const JOB_BUCKET = 'jobs';
const CALL_MS = 30_000;

type Entry = 'jobScore' | 'jobControl';

/** So small that a few rows make several parts and pieces. */
const SIZES = { BATCHSCORE_JOBS_PART_BYTES: '65536', BATCHSCORE_JOBS_PIECE_BYTES: '16384' };

interface JobOptions {
  readonly rows: number;
  /** Of the job's key. */
  readonly name: string;
  readonly variables: Variables;
  readonly models: string;
  /** A client that meets no faults. */
  readonly s3: S3Client;
  readonly say: (line: string) => void;
}

/** Puts a file, and has the functions score it, both as processes; the one that scores is killed once. Each row has its result. */
export async function runJob({ rows, name, variables, models, s3, say }: JobOptions): Promise<Account> {
  const ended = Promise.withResolvers<Ended>();
  const storage = createJobStorage({ s3, bucket: JOB_BUCKET });
  const environments = new Map<Entry, ReturnType<typeof startHandler>>();
  let calls = 0;
  // An environment has one call at a time.
  const inTurn = pLimit(1);
  const invoke = (entry: Entry, payload: unknown): Promise<unknown> => inTurn(() => invokeNow(entry, payload));
  const invokeNow = async (entry: Entry, payload: unknown): Promise<unknown> => {
    const isScore = entry === 'jobScore';
    const known = environments.get(entry);
    const mine =
      known ??
      startHandler(
        {
          ...variables,
          ...(isScore ? { ...SIZES, BATCHSCORE_MODELS_DIR: models, BATCHSCORE_DEFAULT_MODEL: 'echo' } : control),
        },
        { entry, isFrozen: true, cleanUp: endAtExit },
      );
    environments.set(entry, mine);
    const environment = await mine;
    // Its third call, after the plan and a piece, or some.
    if (isScore && ++calls === 3) setTimeout(() => void environment.end(), 20);
    try {
      return await environment.call(payload, CALL_MS);
    } catch (error) {
      if (!environment.isAlive()) environments.delete(entry);
      throw error;
    }
  };
  const states = await startLocalStates({
    region: 'us-east-1',
    score: (event) => invoke('jobScore', event),
    control: (event) => invoke('jobControl', event),
    storage,
    onEnd: (_, how) => ended.resolve(how),
  });
  const control = {
    AWS_ENDPOINT_URL_SFN: states.endpoint,
    BATCHSCORE_JOBS_BUCKET: JOB_BUCKET,
    BATCHSCORE_JOBS_INPUT_PREFIX: JOB_PREFIXES.input,
    BATCHSCORE_JOBS_OUTPUT_PREFIX: JOB_PREFIXES.output,
    BATCHSCORE_JOBS_STATE_MACHINE: states.stateMachineArn,
  };
  const Key = `${JOB_PREFIXES.input}${name}.jsonl`;
  const lines = Array.from({ length: rows }, (_, row) => JSON.stringify({ id: String(row), ...echo(row) }));
  await s3.send(new PutObjectCommand({ Bucket: JOB_BUCKET, Key, Body: `${lines.join('\n')}\n` }));
  const event = await fileEvent(s3, JOB_BUCKET, Key);
  const tell = () => invoke('jobControl', event);
  // As Lambda does it with an event that failed: two more times.
  await tell().catch(tell).catch(tell);
  const how = await ended.promise;
  if (how.status !== 'SUCCEEDED') say(`job ${name}: ${JSON.stringify(how)}`);

  const account = { ...emptyAccount(), sent: rows, jobRows: rows };
  const seen = new Map<string, number>();
  for await (const { key } of storage.list(JOB_PREFIXES.output)) {
    if (!key.includes('/data/')) continue;
    for (const line of ((await storage.get(key)) ?? '').trimEnd().split('\n')) {
      const { id, ...answer } = JSON.parse(line);
      seen.set(id, (seen.get(id) ?? 0) + 1);
      const expected = gist({ outputs: echo(Number(id)).inputs });
      if (gist(answer) === expected) continue;
      account.wrong += 1;
      if (account.wrong <= 5) say(`job ${name}: wrong: expected ${expected}, got ${line}`);
    }
    await storage.remove(key);
  }
  account.answered = seen.size;
  account.lost = Math.max(rows - seen.size, how.status === 'SUCCEEDED' ? 0 : 1);
  account.conflicting = [...seen.values()].filter((times) => times > 1).length;
  await states.stop();
  for (const environment of environments.values()) await (await environment).end();
  return account;
}
