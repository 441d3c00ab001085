import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { HeadObjectCommand } from '@aws-sdk/client-s3';
import { describe, expect, it } from '@jest/globals';
import type { PlanAnswer } from '../../../lambda/jobs/planJob.ts';
import type { JobEvent, ScoreEvent } from '../../../lambda/jobs/scorePart.ts';
import { useS3Server } from '../../helpers/awsServers.ts';
import { CULPRIT, culpritModel } from '../../helpers/onnxModels.ts';
import { afterThisTest, modelsDirectory } from '../../helpers/openModels.ts';

const server = useS3Server();
const PROCESS = fileURLToPath(new URL('./jobProcess.ts', import.meta.url));
const ROWS = 60;
const FOLDER = 'out/job/';

/** Calls of the function, as Step Functions makes them: a process for each that follows one that died. */
function startCalls(env: Record<string, string | undefined>) {
  let child: ReturnType<typeof fork> | undefined;
  let died = 0;
  afterThisTest(async () => void child?.kill('SIGKILL'));
  return {
    died: () => died,
    /** @returns what it answered; undefined where it died */
    async call<A>(event: JobEvent): Promise<A | undefined> {
      child ??= fork(PROCESS, { env, stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
      child.send(event);
      const [answer] = await Promise.race([once(child, 'message'), once(child, 'close').then(() => [undefined])]);
      if (answer === undefined) {
        died += 1;
        child = undefined;
      }
      return answer;
    },
  };
}

describe('a job with rows that end the process', () => {
  it('has an error for each of them and the answers to all others', async () => {
    const bucket = await server.bucket();
    const culprits = new Map([
      [27, CULPRIT.traps],
      [28, CULPRIT.traps],
      [50, CULPRIT.traps],
    ]);
    const lines = Array.from({ length: ROWS }, (_, row) =>
      JSON.stringify({
        id: String(row),
        inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [culprits.get(row) ?? row] }],
      }),
    );
    await server.put(bucket, 'in/rows.jsonl', lines.join('\n'));
    const { ETag = '', ContentLength = 0 } = await server
      .client()
      .send(new HeadObjectCommand({ Bucket: bucket, Key: 'in/rows.jsonl' }));
    const directory = await modelsDirectory({
      'culprit/1/model.onnx': culpritModel(),
      'culprit/config.json': { batching: 'trust', sessionOptions: { logSeverityLevel: 4 } },
    });
    const calls = startCalls({
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_ENDPOINT_URL_S3: server.endpoint(),
      BATCHSCORE_MODELS_DIR: directory,
      // About twenty rows a piece: what ends the process is in the second and the third.
      BATCHSCORE_JOBS_PIECE_BYTES: '2000',
      BATCHSCORE_JOBS_PART_BYTES: '1000000',
    });
    const input = { bucket, key: 'in/rows.jsonl', etag: ETag, bytes: ContentLength };
    const start = { ...input, job: 'job', run: 1, folder: FOLDER, concurrency: 1, spec: {} };
    const plan = await calls.call<PlanAnswer>({ action: 'plan', start });
    const [line = ''] = (await server.text(bucket, plan?.planKey ?? '')).split('\n');

    let event: ScoreEvent = { action: 'score', bucket, folder: FOLDER, part: JSON.parse(line) };
    do {
      const answer = await calls.call<ScoreEvent>(event);
      const error = { Error: 'Runtime.ExitError', Cause: 'the process ended' };
      if (answer === undefined) {
        const skip = { action: 'skip', call: { ...event, error } } as const;
        // Its first answer is lost.
        await calls.call<ScoreEvent>(skip);
        event = (await calls.call<ScoreEvent>(skip)) as ScoreEvent;
      } else event = answer;
    } while (event.next !== undefined);

    const keys = (await server.keys(bucket)).filter((key) => key.startsWith(`${FOLDER}data/`));
    const rows = (await Promise.all(keys.map((key) => server.text(bucket, key)))).join('').trimEnd().split('\n');
    const answers = rows.map((row) => JSON.parse(row)).map(({ id, code, outputs }) => [id, code ?? outputs[0].data[0]]);
    expect(answers).toEqual(
      Array.from({ length: ROWS }, (_, row) => [String(row), culprits.has(row) ? 'MODEL_CRASHED' : 10 * row]),
    );
    expect(calls.died()).toBe(0);
  });
});
