import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { SFNClient } from '@aws-sdk/client-sfn';
import { createDevTelemetry } from '../../cli/devTelemetry.ts';
import { localBucketClient } from '../../cli/local/localServices.ts';
import { type LocalStack, startLocalStack } from '../../cli/local/localStack.ts';
import { Batchscore } from '../../client/index.ts';
import { REPOSITORY } from './command.ts';

export interface JobStack {
  readonly s3: S3Client;
  readonly sfn: SFNClient;
  readonly stateMachineArn: string;
  readonly client: Batchscore;
  /** Every line that was said, in order. */
  readonly said: readonly string[];
  put(key: string, body: string): Promise<void>;
  get(key: string): Promise<string>;
  keysUnder(prefix: string): Promise<string[]>;
  /** The first line that matches, from now on or before. */
  line(pattern: RegExp): Promise<string>;
  stop(): Promise<void>;
}

const BUCKET = 'batchscore-jobs';
/** So small that a few rows make several parts and pieces. */
const SIZES = { BATCHSCORE_JOBS_PART_BYTES: '2000', BATCHSCORE_JOBS_PIECE_BYTES: '700' };

/** The local stack with the models of the repository, in this process. */
export async function startJobStack(environment = SIZES): Promise<JobStack> {
  const said: string[] = [];
  const waiting = new Set<() => void>();
  const say = (message: string): void => {
    said.push(message);
    for (const look of [...waiting]) look();
  };
  const stack: LocalStack = await startLocalStack({
    port: 0,
    modelsDirectory: `${REPOSITORY}/models`,
    defaultModel: 'digits',
    environment,
    jobs: true,
    telemetry: createDevTelemetry(() => {}),
    warn: say,
  });
  const { region, endpoint } = stack.queues;
  const s3 = localBucketClient(endpoint, region);
  const credentials = { accessKeyId: 'any', secretAccessKey: 'any' };
  const sfn = new SFNClient({ region, endpoint: stack.jobs?.sfnEndpoint ?? '', credentials, maxAttempts: 1 });
  const { jobStateMachine = '', jobBucket = '' } = stack.jobs ?? {};
  const client = new Batchscore({ jobStateMachine, jobBucket, region, s3, sfn });
  return {
    s3,
    sfn,
    client,
    stateMachineArn: stack.jobs?.jobStateMachine ?? '',
    said,
    async put(key, body) {
      await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: key, Body: body }));
    },
    async get(key) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }));
      return (await Body?.transformToString()) ?? '';
    },
    async keysUnder(prefix) {
      const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: BUCKET, Prefix: prefix }));
      return Contents.flatMap(({ Key }) => Key ?? []).toSorted();
    },
    line: (pattern) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = said.find((one) => pattern.test(one));
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    async stop() {
      await client.close();
      s3.destroy();
      sfn.destroy();
      await stack.stop();
    },
  };
}

/** One row for digits, which `turn` tells from others. */
export function row(turn: number): string {
  const data = Array.from({ length: 64 }, (_, pixel) => (pixel + turn) % 17);
  return JSON.stringify({ id: `row-${turn}`, inputs: [{ name: 'image', datatype: 'FP32', shape: [1, 64], data }] });
}

export function fileOf(rows: readonly string[]): string {
  return rows.map((one) => `${one}\n`).join('');
}
