import { messageOf } from '../core/contract/failure.ts';

export interface TaskProtectionOptions {
  /** Of the agent, as ECS tells its tasks. @default none: there is nothing to protect */
  readonly agentUri: string | undefined;
  readonly isBusy: () => boolean;
  /** Told when the agent does not do it. */
  readonly onProblem: (error: unknown) => void;
}

/** Protection ends by itself, should the worker hang. */
const PROTECTED_MINUTES = 10;
/**
 * After it has ended, a worker that is never idle leaves it off for a while: deployments and scale-in wait for tasks
 * that are protected. What SIGTERM meets then is finished or handed back as ever.
 */
const UNPROTECTED_MS = 60_000;
const IDLE_MS = 15_000;
const LOOK_MS = 1_000;
const ANSWER_MS = 2_000;

/**
 * Protects the ECS task from scale-in and deployments while it is busy. Never fatal: without protection, SIGTERM
 * comes earlier.
 *
 * @returns what ends it; the task is not protected any longer then
 * @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-scale-in-protection-endpoint.html
 */
export function protectTask({ agentUri, isBusy, onProblem }: TaskProtectionOptions): () => Promise<void> {
  if (agentUri === undefined) return async () => {};
  let protectedUntil = Number.NEGATIVE_INFINITY;
  let busyAt = Number.NEGATIVE_INFINITY;
  let asking = false;

  const ask = async (state: object): Promise<void> => {
    asking = true;
    try {
      await putState(agentUri, state);
    } catch (error) {
      onProblem(new Error(`task protection: ${messageOf(error)}`, { cause: error }));
    }
    asking = false;
  };
  const protect = async (now: number): Promise<void> => {
    protectedUntil = now + 60_000 * PROTECTED_MINUTES;
    await ask({ ProtectionEnabled: true, ExpiresInMinutes: PROTECTED_MINUTES });
  };
  const unprotect = async (): Promise<void> => {
    protectedUntil = Number.NEGATIVE_INFINITY;
    await ask({ ProtectionEnabled: false });
  };
  const look = (): void => {
    const now = performance.now();
    if (isBusy()) busyAt = now;
    if (asking) return;
    if (isBusy() && now > protectedUntil + UNPROTECTED_MS) void protect(now);
    else if (now < protectedUntil && now > busyAt + IDLE_MS) void unprotect();
  };
  const timer = setInterval(look, LOOK_MS);
  return async () => {
    clearInterval(timer);
    if (performance.now() < protectedUntil) await unprotect();
  };
}

async function putState(agentUri: string, state: object): Promise<void> {
  const response = await fetch(`${agentUri}/task-protection/v1/state`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(state),
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const answer: unknown = await response.json();
  const refused = typeof answer === 'object' && answer !== null && ('failure' in answer || 'error' in answer);
  if (!response.ok || refused)
    throw new Error(`expected the ECS agent to take it, got ${response.status}: ${JSON.stringify(answer)}`);
}
