import { type Clock, SYSTEM_CLOCK } from '../aws/clock.ts';
import { messageOf } from '../core/contract/failure.ts';

/** What the agent is told. */
export interface ProtectionState {
  readonly ProtectionEnabled: boolean;
  readonly ExpiresInMinutes?: number;
}

export type PutProtection = (state: ProtectionState) => Promise<void>;

export interface TaskProtectionOptions {
  /** Tells ECS. @throws Error when it does not do it */
  readonly put: PutProtection;
  readonly isBusy: () => boolean;
  /** Told when the agent does not do it. */
  readonly onProblem: (error: unknown) => void;
  /** @default the system's */
  readonly clock?: Clock | undefined;
}

/** Protection ends by itself, should the worker hang. */
const PROTECTED_MINUTES = 10;
const PROTECTED_MS = 60_000 * PROTECTED_MINUTES;
/**
 * So long a worker that is never idle leaves it off then: deployments and scale-in wait for tasks that are protected.
 * What SIGTERM meets is finished or handed back, as ever.
 */
const UNPROTECTED_MS = 60_000;
const IDLE_MS = 15_000;
const LOOK_MS = 1_000;

/**
 * Protects the ECS task from scale-in and deployments while it is busy. Never fatal: without protection, SIGTERM
 * comes earlier.
 *
 * @returns what ends it; the task is not protected any longer then
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
 * @param agentUri `ECS_AGENT_URI`, which ECS gives its tasks
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
    // A failure, such as that of a task outside of a service, may come with a status of 200.
    if (response.ok && !/"(?:failure|error)"/.test(answer)) return;
    throw new Error(`expected the ECS agent to take ${JSON.stringify(state)}, got ${response.status}: ${answer}`);
  };
}
