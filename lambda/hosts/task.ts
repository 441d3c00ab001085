import { once } from 'node:events';
import { createServer } from 'node:http';
import { type Clock, SYSTEM_CLOCK } from '../core/concurrency.ts';
import { messageOf } from '../core/failure.ts';
import { type GpuReading, OF_NVIDIA } from '../core/observer.ts';
import type { Worker } from './consumer.ts';

type EndCause = 'SIGTERM' | 'SIGINT';

interface Stop {
  /** Resolves when the worker must drain. */
  readonly asked: Promise<EndCause>;
  /** Resolves with the reason when the worker must end without waiting. */
  readonly forced: Promise<string>;
  isAsked(): boolean;
}

/** `npm run` forwards Ctrl-C to a process that the terminal has already signalled. The two signals count as one. */
const SAME_PRESS_MS = 200;

/** Listens for signals from now on. Without a listener, the first process of a container does not receive them. */
export function listenForStop(): Stop {
  const asked = Promise.withResolvers<EndCause>();
  const forced = Promise.withResolvers<string>();
  let isAsked = false;
  let firstSignalAt: number | undefined;
  const ask = (cause: EndCause): void => {
    isAsked = true;
    asked.resolve(cause);
  };
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      const now = performance.now();
      firstSignalAt ??= now;
      if (now > firstSignalAt + SAME_PRESS_MS) forced.resolve(`a second signal, ${name}`);
      ask(name);
    });
  }
  return { asked: asked.promise, forced: forced.promise, isAsked: () => isAsked };
}

interface WorkerEnd {
  readonly exitCode: number;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/**
 * Drains the worker. Gives up on a second signal, or when the time to stop is nearly over.
 *
 * @param endMs time until it gives up
 */
export async function drainOrGiveUp(
  worker: Worker,
  stop: Stop,
  cause: EndCause,
  { endMs }: { readonly endMs: number },
): Promise<WorkerEnd> {
  const startedAt = performance.now();
  const before = worker.tally();
  const deadline = Promise.withResolvers<string>();
  const timer = setTimeout(() => deadline.resolve('the time to stop is over'), endMs);
  const forced = await Promise.race([worker.drain(), stop.forced, deadline.promise]);
  clearTimeout(timer);
  const { finished, handedBack } = worker.tally();
  const details = {
    cause,
    finished: finished - before.finished,
    handedBack: handedBack - before.handedBack,
    ms: Math.round(performance.now() - startedAt),
  };
  if (forced === undefined) {
    return { exitCode: 0, message: 'the worker has drained', details };
  }
  const message = 'the worker ends before it has drained; remaining messages come back after their visibility timeout';
  return { exitCode: 1, message, details: { ...details, because: forced, left: worker.leased() } };
}

interface Health {
  /** Returns false if the worker must be replaced. */
  isLive(): boolean;
  /** Returns true if it receives messages: its models are warm, and it is not stopping. */
  isReady(): boolean;
}

const STATES: Readonly<Record<string, keyof Health>> = { '/live': 'isLive', '/ready': 'isReady' };

/**
 * Answers `GET /live` and `GET /ready` on 127.0.0.1 with 200 or 503, for the health check of a container.
 *
 * @returns a function that closes the port
 * @throws Error if the port is taken
 * @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/healthcheck.html
 */
export async function openHealthPort(port: number, health: Health): Promise<() => void> {
  const server = createServer(({ url = '' }, response) => {
    const state = STATES[url];
    const status = state === undefined ? 404 : health[state]() ? 200 : 503;
    response.writeHead(status, { connection: 'close' }).end();
  });
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new Error(
      `health port: expected ${port} on 127.0.0.1 to be free, got '${messageOf(cause)}'; set another port`,
      { cause },
    );
  }
  return () => server.close();
}

export interface ProtectionState {
  readonly ProtectionEnabled: boolean;
  readonly ExpiresInMinutes?: number;
}

type PutProtection = (state: ProtectionState) => Promise<void>;

interface TaskProtectionOptions {
  /** Sends the state to the ECS agent. @throws Error if the agent refuses it */
  readonly put: PutProtection;
  readonly isBusy: () => boolean;
  readonly onProblem: (error: unknown) => void;
  /** @default the system's clock */
  readonly clock?: Clock | undefined;
}

/** Protection expires by itself if the worker hangs. */
const PROTECTED_MINUTES = 10;
const PROTECTED_MS = 60_000 * PROTECTED_MINUTES;
/**
 * Time without protection of a worker that is never idle, to let waiting deployments and scale-in proceed. A SIGTERM in
 * this time finishes or hands back work as usual.
 */
const UNPROTECTED_MS = 60_000;
const IDLE_MS = 15_000;
const LOOK_MS = 1_000;

/**
 * Protects the ECS task from scale-in and deployments while it is busy. Never fatal: without protection, SIGTERM comes
 * earlier.
 *
 * @returns a function that ends the protection
 */
export function protectTask(options: TaskProtectionOptions): () => Promise<void> {
  const { put, isBusy, onProblem, clock = SYSTEM_CLOCK } = options;
  let protectedAt: number | undefined;
  let busyAt = 0;
  let asking: Promise<void> | undefined;

  const ask = async (state: ProtectionState): Promise<void> => {
    try {
      await put(state);
    } catch (error) {
      onProblem(new Error(`task protection: ${messageOf(error)}`, { cause: error }));
    }
    asking = undefined;
  };
  const protect = (now: number): void => {
    protectedAt = now;
    asking = ask({ ProtectionEnabled: true, ExpiresInMinutes: PROTECTED_MINUTES });
  };
  const unprotect = (): void => {
    protectedAt = undefined;
    asking = ask({ ProtectionEnabled: false });
  };
  const look = (): void => {
    cancel = clock.after(LOOK_MS, look);
    const now = clock.now();
    if (isBusy()) busyAt = now;
    if (asking !== undefined) return;
    if (protectedAt !== undefined && now < protectedAt + PROTECTED_MS) {
      if (now >= busyAt + IDLE_MS) unprotect();
    } else if (isBusy() && now >= (protectedAt ?? Number.NEGATIVE_INFINITY) + PROTECTED_MS + UNPROTECTED_MS) {
      protect(now);
    }
  };
  let cancel = clock.after(LOOK_MS, look);
  return async () => {
    cancel();
    await asking;
    if (protectedAt !== undefined) unprotect();
    await asking;
  };
}

const ANSWER_MS = 2_000;

/**
 * @param agentUri `ECS_AGENT_URI` of the task
 * @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-scale-in-protection-endpoint.html
 */
export function protectionAt(agentUri: string): PutProtection {
  return async (state) => {
    const response = await fetch(`${agentUri}/task-protection/v1/state`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(state),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const answer = await response.text();
    // A failure, such as that of a task outside of a service, may have status 200.
    if (response.ok && !/"(?:failure|error)"/.test(answer)) return;
    throw new Error(`expected the ECS agent to take ${JSON.stringify(state)}, got ${response.status}: ${answer}`);
  };
}

interface GpuWatchOptions {
  readonly read: () => Promise<readonly GpuReading[]>;
  readonly onReadings: (readings: readonly GpuReading[]) => void;
  /** Called once when the devices cannot be read, and again only after a success. */
  readonly onProblem: (message: string) => void;
  /** @default the system's clock */
  readonly clock?: Clock | undefined;
}

/** Period of the metrics in CloudWatch. */
const EVERY_MS = 60_000;

/**
 * Watches the devices every minute, once a provider that uses them is reported. Never fatal: without readings there are
 * no device metrics.
 *
 * @returns a function to call with every provider
 */
export function createGpuWatch(options: GpuWatchOptions): (provider: string) => void {
  const { read, onReadings, onProblem, clock = SYSTEM_CLOCK } = options;
  let isWatching = false;
  let isAsking = false;
  let isKnown = true;

  const unknown = (why: string): void => {
    if (isKnown) onProblem(`there are no GPU metrics: ${why}`);
    isKnown = false;
  };
  const look = async (): Promise<void> => {
    clock.after(EVERY_MS, look);
    // A process that waits in the driver cannot be killed, and another one would also wait.
    if (isAsking) return unknown('nvidia-smi does not end');
    isAsking = true;
    try {
      onReadings(await read());
      isKnown = true;
    } catch (error) {
      unknown(messageOf(error));
    }
    isAsking = false;
  };
  return (provider) => {
    if (isWatching || !OF_NVIDIA.includes(provider)) return;
    isWatching = true;
    void look();
  };
}
