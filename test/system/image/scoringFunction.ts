import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { atExit, ENVIRONMENT } from './command.ts';
import { configOf, ISOLATION, makeContainer } from './images.ts';
import { type RuntimeApi, type Start, startRuntimeApi } from './runtimeApi.ts';

/** A Lambda function that runs in a container of an image. */
export interface ScoringFunction extends Pick<RuntimeApi, 'invoke'> {
  readonly start: Start;
  /** Milliseconds from starting the container to the first thing the function did. */
  readonly startMs: number;
  stop(): Promise<void>;
}

/** Starts the image as Lambda does: its entry point with its command, and the environment of a function. */
export async function startFunction(
  tag: string,
  environment: Readonly<Record<string, string>>,
): Promise<ScoringFunction> {
  const [{ Entrypoint, Cmd }, container, api] = await Promise.all([
    configOf(tag),
    makeContainer(tag),
    startRuntimeApi(),
  ]);
  const variables = { ...environmentOfLambda(api.address), ...environment };
  const options = Object.entries(variables).flatMap(([name, value]) => ['--env', `${name}=${value}`]);

  const startedAt = performance.now();
  const child = spawn('buildah', ['run', ...ISOLATION, ...options, container, '--', ...Entrypoint, ...Cmd], {
    // A process group of its own: it ends with everything that runs in the container.
    detached: true,
    env: ENVIRONMENT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const kill = () => {
    const runs = child.exitCode === null && child.signalCode === null;
    if (runs && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  };
  atExit(kill);
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      log += chunk;
    });
  }
  const closed = once(child, 'close');
  const ended = closed.then(() => {
    throw new Error(`expected the function to start, got its end:\n${log}`);
  });

  return {
    start: await Promise.race([api.start, ended]),
    startMs: performance.now() - startedAt,
    invoke: (event) => api.invoke(event),
    stop: async () => {
      kill();
      await closed;
      api.close();
    },
  };
}

function environmentOfLambda(runtimeApi: string): Record<string, string> {
  return {
    AWS_LAMBDA_RUNTIME_API: runtimeApi,
    AWS_LAMBDA_FUNCTION_NAME: 'batchscore',
    AWS_LAMBDA_FUNCTION_VERSION: '1',
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769',
    AWS_LAMBDA_LOG_GROUP_NAME: '/aws/lambda/batchscore',
    AWS_LAMBDA_LOG_STREAM_NAME: '2026/01/01/[1]0123456789abcdef',
    AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  };
}
