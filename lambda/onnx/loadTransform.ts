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
 * @param warn called once for each place in it that throws an unhandled error
 * @throws Error naming the file if it cannot be imported, or its exports are wrong
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
      `${path}: expected the transform to handle all its errors, got an unhandled one: ${place}; ` +
        'await every promise, and catch the errors of timers, callbacks and events',
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
      hooks[name] = guard(hook, name, limitMs, warnOfStray);
    }
  }
  if (Object.keys(hooks).length === 0) throw refuse('none of them');
  return hooks;
}

async function importModule(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const module = await import(pathToFileURL(path).href);
    // Exports of CommonJS are members of the default, and a bundle of it names no others.
    return { ...Object(module.default), ...module };
  } catch (cause) {
    const message = `expected a module with the model's transform, got one that cannot be imported: ${messageOf(cause)}`;
    throw new Error(`${path}: ${message}`, { cause });
  }
}

type Hook = (...given: unknown[]) => unknown;

function isHook(value: unknown): value is Hook {
  return typeof value === 'function';
}

/** Wraps a hook. Its promise rejects if it does not settle in time, or on an unhandled error of the hook. */
function guard(hook: Hook, name: string, limitMs: number, warnOfStray: (error: unknown) => void): Hook {
  return (...given) => {
    let fail: ((reason: unknown) => void) | undefined;
    const onStrayError = (error: unknown): void => {
      warnOfStray(error);
      fail?.(error);
    };
    const asked = withStrayErrorsTo(onStrayError, () => settle(hook(...given)));
    if (!(asked instanceof Promise)) return asked;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    fail = reject;
    const late = () => reject(new Error(`expected the transform's ${name} to settle within ${limitMs} ms, it did not`));
    const timer = setTimeout(late, limitMs);
    asked.then(resolve, reject).finally(() => clearTimeout(timer));
    return promise;
  };
}

/** Returns a promise if the value is a thenable or an array with one, else the value. */
function settle(asked: unknown): unknown {
  const soon = toPromise(asked);
  if (soon instanceof Promise) return soon.then(settle);
  return Array.isArray(asked) ? allThere(asked.map(toPromise)) : asked;
}

/** Converts a thenable to a promise. Query builders and other lazy objects have a `then` but are no promises. */
function toPromise(asked: unknown): unknown {
  const isThenable = typeof asked === 'object' && asked !== null && 'then' in asked && typeof asked.then === 'function';
  return isThenable ? Promise.resolve(asked) : asked;
}

/**
 * Describes the type and place of an error, such as `TypeError at decode (transform.ts:12:5)`. It leaves out the
 * message, which may quote a request, because the text goes to a log.
 */
function describePlace(thrown: unknown): string {
  const error = readable(thrown);
  if (!(error instanceof Error)) return `${error === null ? 'null' : typeof error}, which is no Error`;
  const frames = String(error.stack).replace(error.message, '').split('\n');
  const first = frames.find((line) => /^\s+at /.test(line)) ?? 'at a place that it does not name';
  return `${error.name} ${first.trim()}`;
}

type StrayErrorListener = (error: unknown) => void;

const listeners = new AsyncLocalStorage<StrayErrorListener>();

/**
 * Runs foreign code. Its unhandled errors go to `onStrayError` and nowhere else in the process: a timer, a callback or
 * an event that throws, or a rejected promise that nothing awaits.
 */
function withStrayErrorsTo<T>(onStrayError: StrayErrorListener, work: () => T): T {
  watchProcess();
  return listeners.run(onStrayError, work);
}

/** Events of Node for unhandled errors. */
const STRAY: ReadonlySet<unknown> = new Set(['uncaughtException', 'unhandledRejection']);

let watched = false;

/**
 * Intercepts these events. Node emits them in the async context of the code that failed. Listeners would not do: all
 * are called, and those of the Lambda runtime end the process.
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
