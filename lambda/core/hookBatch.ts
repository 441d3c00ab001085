import { types } from 'node:util';
import { nextTurn, raceAbort, sooner } from './concurrency.ts';
import { failure, isFailure, isRetryable, plural, preview, readable } from './failure.ts';
import type { BatchHook, Model, TransformContext } from './model.ts';
import type { Observer, RequestPlace } from './observer.ts';
import type { TimeLimit } from './record.ts';

/** Collects requests for one call of a transform's batch hook. */
export interface HookBatch<In, Out> {
  /**
   * Adds a request to the next call.
   *
   * @param fresh returns a new copy of the hook's input. Each call gets its own, so that it does not see changes of
   *   another
   * @param place of the request, for the observer. @default none
   * @throws the hook's error for this request alone, or a `DEADLINE` failure if the time ran out
   */
  add(fresh: () => In, place?: RequestPlace): Promise<Out>;
  /** Calls the hook for all requests. Never throws. */
  call(): Promise<void>;
  size(): number;
}

/** Time limit for a hook's promise. One that never settles must not delay other requests. */
export const HOOK_LIMIT_MS = 5_000;
/** Shares of the time left for one call with all requests, and then for each call with one. */
const SHARE_OF_TIME = { together: 1 / 4, alone: 1 / 2 };
/** Number of concurrent calls with one request. */
const ALONE_AT_A_TIME = 32;
/** Results to pass on before yielding to the event loop, because those of `decodeBatch` are then checked and copied. */
const RESULTS_A_TURN = 256;

interface Entry<In, Out> {
  readonly fresh: () => In;
  readonly place: RequestPlace | undefined;
  readonly resolve: (value: Out) => void;
  readonly reject: (reason: unknown) => void;
}

/** @param hook of the model's transform. If it is undefined, `add` must not be called */
export function createHookBatch<In, Out>(
  name: 'decodeBatch' | 'encodeBatch',
  hook: BatchHook<In, Out> | undefined,
  model: Model,
  time: TimeLimit,
  { observer, now = () => performance.now() }: { readonly observer?: Observer; readonly now?: () => number } = {},
): HookBatch<In, Out> {
  let waiting: Entry<In, Out>[] = [];
  const ask = async (entries: readonly Entry<In, Out>[]): Promise<readonly (Out | Error)[]> => {
    if (time.signal.aborted) throw OUT_OF_TIME;
    const share = time.remainingMs() * SHARE_OF_TIME[entries.length > 1 ? 'together' : 'alone'];
    const limitMs = Math.max(1, Math.floor(Math.min(HOOK_LIMIT_MS, share)));
    const late =
      limitMs < HOOK_LIMIT_MS
        ? OUT_OF_TIME
        : new HookError(`expected the transform's ${name} to settle within ${limitMs} ms, it did not`);
    const { signal, end } = sooner(time.signal, limitMs, late);
    const endsAt = now() + limitMs;
    const context = { signal, remainingMs: () => Math.max(0, endsAt - now()), once: onceOf(model) };
    const requests = entries.flatMap(({ place }) => place ?? []);
    const hasEnded = observer?.begins?.({ isRun: false, model: model.name, expectedMs: 0, requests });
    try {
      const asked = hook?.(
        entries.map(({ fresh }) => fresh()),
        context,
      );
      const given = await raceAbort(Promise.resolve(asked), signal);
      if (Array.isArray(given) && given.length === entries.length) return given;
      const got = Array.isArray(given) ? given.length : preview(given);
      throw new HookError(`expected the transform's ${name} to return ${plural(entries.length, 'result')}, got ${got}`);
    } catch (error) {
      if (!signal.aborted) throw error;
      throw time.signal.aborted ? OUT_OF_TIME : late;
    } finally {
      hasEnded?.();
      end();
    }
  };
  /** @returns the reason to call the hook for each request alone, or undefined if each has its result or error */
  const settle = async (entries: readonly Entry<In, Out>[]): Promise<unknown> => {
    try {
      const results = await ask(entries);
      for (const [index, { resolve, reject }] of entries.entries()) {
        const result = results[index];
        if (Error.isError(result)) reject(readable(result));
        else resolve(result as Out);
        if ((index + 1) % RESULTS_A_TURN === 0) await nextTurn();
      }
      return undefined;
    } catch (thrown) {
      const error = readable(thrown);
      const isLast = entries.length === 1 || time.signal.aborted || isRetryable(error);
      if (!isLast) return error ?? new Error('it threw nothing');
      for (const { reject } of entries) reject(error);
      return undefined;
    }
  };
  return {
    add: (fresh, place) => new Promise((resolve, reject) => waiting.push({ fresh, place, resolve, reject })),
    size: () => waiting.length,
    async call() {
      if (waiting.length === 0) return;
      const entries = waiting;
      waiting = [];
      const startedAt = now();
      const failed = await settle(entries);
      if (failed !== undefined) {
        const each = entries.values();
        const settleSome = async (): Promise<void> => {
          for (const entry of each) {
            // A result is copied before the next call, which may reuse the array.
            await nextTurn();
            await settle([entry]);
          }
        };
        await Promise.all(Array.from({ length: ALONE_AT_A_TIME }, settleSome));
      }
      const endedAt = now();
      const details = { model: model.name, hook: name, requests: entries.length };
      observer?.stage?.('transform', startedAt, endedAt, details);
      observer?.transformed?.({
        ...details,
        transformMs: endedAt - startedAt,
        ...(failed !== undefined && { split: kindOf(failed) }),
      });
    },
  };
}

const OUT_OF_TIME = failure(
  'DEADLINE',
  "expected the model's transform to end before the deadline, it did not; raise the timeout, or lower the batch size",
);

/** Describes an error for a log: without its message, which may quote a request. */
function kindOf(failed: unknown): string {
  if (isFailure(failed) || failed instanceof HookError) return failed.message;
  return `it threw ${failed instanceof Error ? failed.name : 'a value that is no Error'}`;
}

/** Violation of the hook's contract. */
class HookError extends Error {}

const kept = new WeakMap<object, Map<string, unknown>>();

function onceOf({ transform = {} }: Model): TransformContext['once'] {
  const mine = kept.get(transform) ?? new Map<string, unknown>();
  kept.set(transform, mine);
  return <T>(name: string, make: () => T): T => {
    if (mine.has(name)) return mine.get(name) as T;
    const made = make();
    mine.set(name, made);
    // A failed promise is not kept.
    if (types.isPromise(made)) made.catch(() => mine.delete(name));
    return made;
  };
}
