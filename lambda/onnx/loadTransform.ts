import { AsyncLocalStorage } from 'node:async_hooks';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { allThere } from '../core/concurrency.ts';
import { messageOf, readable } from '../core/failure.ts';
import { HOOK_LIMIT_MS } from '../core/hookBatch.ts';
import type { Transform } from '../core/model.ts';

/**
 * Imports a model's transform module.
 *
 * @param warn told of every place in it where an error comes from that nobody waits for, once
 * @throws Error naming the file when it cannot be imported, or does not export what it should
 */
export async function loadTransform(
  path: string,
  warn: (message: string) => void,
  limitMs = HOOK_LIMIT_MS,
): Promise<Transform> {
  const told = new Set<string>();
  const warnOfStray = (error: unknown): void => {
    const place = describePlace(error);
    if (told.has(place)) return;
    told.add(place);
    warn(
      `${path}: expected the transform to wait for all that it starts, got an error that nobody waits for: ${place}; ` +
        'await every promise, and catch what timers, callbacks and events throw',
    );
  };
  const module = await withStrayErrorsTo(warnOfStray, () => importModule(path));
  const refuse = (got: string) =>
    new Error(
      `${path}: expected functions exported as decode or decodeBatch, encode or encodeBatch, or one of each, got ${got}; ` +
        'see docs/transforms.md',
    );
  const hooks: Record<string, Hook> = {};
  for (const one of ['decode', 'encode']) {
    const there = [one, `${one}Batch`].filter((name) => module[name] !== undefined);
    if (there.length > 1) throw refuse(`both ${there.join(' and ')}`);
    for (const name of there) {
      const hook = module[name];
      if (!isHook(hook)) throw refuse(`${typeof hook} as ${name}`);
      hooks[name] = guarded(hook, name, limitMs, warnOfStray);
    }
  }
  if (Object.keys(hooks).length === 0) throw refuse('none of them');
  return hooks;
}

async function importModule(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await import(pathToFileURL(path).href);
  } catch (cause) {
    const message = `expected a module with the model's transform, got one that cannot be imported: ${messageOf(cause)}`;
    throw new Error(`${path}: ${message}`, { cause });
  }
}

type Hook = (...given: unknown[]) => unknown;

function isHook(value: unknown): value is Hook {
  return typeof value === 'function';
}

/** The hook, rejecting in place of a promise that does not settle in time, or that an error was meant for. */
function guarded(hook: Hook, name: string, limitMs: number, warnOfStray: (error: unknown) => void): Hook {
  return (...given) => {
    let fail: ((reason: unknown) => void) | undefined;
    const onStrayError = (error: unknown): void => {
      warnOfStray(error);
      fail?.(error);
    };
    const asked = withStrayErrorsTo(onStrayError, () => settled(hook(...given)));
    if (!(asked instanceof Promise)) return asked;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    fail = reject;
    const late = () => reject(new Error(`expected the transform's ${name} to settle within ${limitMs} ms, it did not`));
    const timer = setTimeout(late, limitMs);
    asked.then(resolve, reject).finally(() => clearTimeout(timer));
    return promise;
  };
}

/** A promise of what is promised, or of an array in which something is; anything else as it is. */
function settled(asked: unknown): unknown {
  const soon = promised(asked);
  if (soon instanceof Promise) return soon.then(settled);
  return Array.isArray(asked) ? allThere(asked.map(promised)) : asked;
}

/** Query builders and other lazy things have a `then`, and are no promises. */
function promised(asked: unknown): unknown {
  const isThenable = typeof asked === 'object' && asked !== null && 'then' in asked && typeof asked.then === 'function';
  return isThenable ? Promise.resolve(asked) : asked;
}

/**
 * What kind of error it is and where it was made, such as `TypeError at decode (transform.ts:12:5)`. Its message is
 * left out: it may quote a request, and goes to a log.
 */
function describePlace(thrown: unknown): string {
  const error = readable(thrown);
  if (!(error instanceof Error)) return `${error === null ? 'null' : typeof error}, which is no Error`;
  const frames = String(error.stack).replace(error.message, '').split('\n');
  const first = frames.find((line) => /^\s+at /.test(line)) ?? 'at a place that it does not name';
  return `${error.name} ${first.trim()}`;
}

/** Takes an error that nobody waits for. */
type StrayErrorListener = (error: unknown) => void;

const listeners = new AsyncLocalStorage<StrayErrorListener>();

/**
 * Does foreign work. What it starts and does not wait for may go wrong later: a timer, a callback or an event throws,
 * or a promise that nobody holds is rejected. Such an error goes to `onStrayError`, and to nothing else in the process.
 */
function withStrayErrorsTo<T>(onStrayError: StrayErrorListener, work: () => T): T {
  watchProcess();
  return listeners.run(onStrayError, work);
}

/** How Node tells of errors that nobody waits for. */
const STRAY: ReadonlySet<unknown> = new Set(['uncaughtException', 'unhandledRejection']);

let watched = false;

/**
 * Node emits these events in the context of the work that went wrong. Listeners are of no use: they are all called, and
 * those of the Lambda runtime end the process.
 */
function watchProcess(): void {
  if (watched) return;
  watched = true;
  process.emit = new Proxy(process.emit, {
    apply(emit, self, event: unknown[]) {
      const onStrayError = STRAY.has(event[0]) ? listeners.getStore() : undefined;
      if (onStrayError === undefined) return Reflect.apply(emit, self, event);
      onStrayError(event[1]);
      return true;
    },
  });
}
