import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_RECEIVES } from '../../../lambda/core/limits.ts';
// Its type alone: the module needs Jest.
import type { Answer } from '../../helpers/hosts.ts';
import { scorersOf, startWorkerProcess } from '../../helpers/processes.ts';
import { MAX_HIDDEN_SECONDS, redrivePolicy, startStrictSqs } from '../../helpers/strictSqs.ts';

/** Execution provider under test. `PROVIDER=cpu` rehearses all tests without a GPU. */
export const PROVIDER = process.env.PROVIDER ?? 'cuda';

const POLL_MS = 5;
const ANSWERS_MS = 120_000;

/** Worker with queues of its own. A second of delay takes a millisecond. */
export type GpuWorker = Awaited<ReturnType<typeof startGpuWorker>>;

/**
 * Starts `lambda/worker.ts` on the provider.
 *
 * @param models folder of models
 * @param settings environment variables of the worker
 */
export async function startGpuWorker(models: string, settings: Readonly<Record<string, string>> = {}) {
  const sqs = await startStrictSqs((seconds) => (seconds === MAX_HIDDEN_SECONDS ? ANSWERS_MS : seconds));
  const dead = sqs.createQueue('dead');
  const RedrivePolicy = redrivePolicy(dead, MAX_RECEIVES);
  const VisibilityTimeout = String(MAX_HIDDEN_SECONDS);
  const worker = startWorkerProcess(
    {
      ...libraryPath(),
      AWS_ENDPOINT_URL_SQS: sqs.endpoint,
      BATCHSCORE_PROVIDERS: PROVIDER,
      BATCHSCORE_MODELS_DIR: models,
      BATCHSCORE_REQUEST_QUEUE_URL: sqs.createQueue('requests', { VisibilityTimeout, RedrivePolicy }),
      BATCHSCORE_RESULT_QUEUE_URL: sqs.createQueue('results'),
      BATCHSCORE_VISIBILITY_SECONDS: VisibilityTimeout,
      BATCHSCORE_TIMEOUT_SECONDS: '20',
      BATCHSCORE_WINDOW_SECONDS: '0.1',
      BATCHSCORE_STOP_SECONDS: '4',
      ...settings,
    },
    () => {},
  );
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    worker.send(signal);
    await worker.ended;
    await sqs.stop();
  };
  await worker.says('the worker is ready').catch(async (error: unknown) => {
    await stop('SIGKILL');
    throw error;
  });
  const answered = (): Map<string, Answer> =>
    new Map(
      sqs
        .history('results')
        .flatMap(({ body }): Answer[] => [JSON.parse(body)].flat())
        .map((answer) => [answer.message_id, answer]),
    );
  return {
    send: (bodies: readonly unknown[]): string[] =>
      bodies.map((body) => sqs.sendMessage('requests', JSON.stringify(body))),
    /** @throws Error if there is no answer to each in two minutes */
    async answers(ids: readonly string[]): Promise<Answer[]> {
      for (const until = Date.now() + ANSWERS_MS; Date.now() < until; await sleep(POLL_MS)) {
        const all = answered();
        const mine = ids.map((id) => all.get(id)).filter((answer) => answer !== undefined);
        if (mine.length === ids.length) return mine;
      }
      throw new Error(
        `expected ${ids.length} answers, got ${answered().size} in all:\n${worker.printed().slice(-4_000)}`,
      );
    },
    isAnswered: (id: string): boolean => answered().has(id),
    /** How often each message was received. */
    receives: (ids: readonly string[]): number[] => {
      const byId = new Map(sqs.history('requests').map((one) => [one.messageId, one.receives]));
      return ids.map((id) => byId.get(id) ?? 0);
    },
    dead: (): number => sqs.history('dead').length,
    scorers: (): number[] => scorersOf(worker.pid ?? 0),
    printed: worker.printed,
    [Symbol.asyncDispose]: () => stop('SIGTERM'),
  };
}

function libraryPath(): Record<string, string> {
  const { LD_LIBRARY_PATH } = process.env;
  return LD_LIBRARY_PATH === undefined ? {} : { LD_LIBRARY_PATH };
}

/** Writes a temporary models folder. @param files bytes, texts or objects by path */
export async function writeModels(files: Readonly<Record<string, Uint8Array | string | object>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'batchscore-gpu-'));
  for (const [path, contents] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    const isRaw = typeof contents === 'string' || contents instanceof Uint8Array;
    await writeFile(join(folder, path), isRaw ? contents : JSON.stringify(contents));
  }
  return folder;
}

export async function removeModels(folder: string): Promise<void> {
  await rm(folder, { recursive: true });
}
