import { AsyncLocalStorage } from 'node:async_hooks';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { deferred } from '../core/concurrency.ts';
import { messageOf } from '../core/failure.ts';
import type { Transform } from '../core/model.ts';

/** How long a hook's promise may take to settle: one that never does must not hold up other requests. */
const HOOK_LIMIT_MS = 5_000;

/**
 * Imports a model's transform module.
 *
 * @param warn told of every place in it where an error comes from that nobody waits for, once
 * @throws Error naming the file when it cannot be imported or exports neither `decode` nor `encode`
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
  const { decode, encode } = await withStrayErrorsTo(warnOfStray, () => importModule(path));
  if (!isHook(decode) || !isHook(encode) || (decode === undefined && encode === undefined)) {
    throw new Error(
      `${path}: expected functions exported as decode, encode or both, got neither; see docs/transforms.md`,
    );
  }
  return {
    ...(decode && { decode: guarded(decode, 'decode', limitMs, warnOfStray) }),
    ...(encode && { encode: guarded(encode, 'encode', limitMs, warnOfStray) }),
  } as Transform;
}

async function importModule(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await import(pathToFileURL(path).href);
  } catch (cause) {
    throw new Error(
      `${path}: expected a module with the model's transform, got one that cannot be imported: ${messageOf(cause)}`,
      {
        cause,
      },
    );
  }
}

type Hook = (argument: unknown) => unknown;

function isHook(value: unknown): value is Hook | undefined {
  return value === undefined || typeof value === 'function';
}

/** The hook, rejecting in place of a promise that does not settle in time, or that an error was meant for. */
function guarded(hook: Hook, name: string, limitMs: number, warnOfStray: (error: unknown) => void): Hook {
  return (argument) => {
    let fail: ((reason: unknown) => void) | undefined;
    const onStrayError = (error: unknown): void => {
      warnOfStray(error);
      fail?.(error);
    };
    const given = withStrayErrorsTo(onStrayError, () => hook(argument));
    if (!(given instanceof Promise)) return given;
    const { promise, resolve, reject } = deferred<unknown>();
    fail = reject;
    const late = () => reject(new Error(`expected the transform's ${name} to settle within ${limitMs} ms, it did not`));
    const timer = setTimeout(late, limitMs);
    given.then(resolve, reject).finally(() => clearTimeout(timer));
    return promise;
  };
}

/**
 * What kind of error it is and where it was made, such as `TypeError at decode (transform.ts:12:5)`. Its message is left
 * out: it may quote a request, and goes to a log.
 */
function describePlace(error: unknown): string {
  if (!(error instanceof Error)) return `${error === null ? 'null' : typeof error}, which is no Error`;
  const frames = (error.stack ?? '').replace(error.message, '').split('\n');
  const first = frames.find((line) => /^\s+at /.test(line)) ?? 'at a place that it does not name';
  return `${error.name} ${first.trim()}`;
}

/** Takes an error that nobody waits for. */
type StrayErrorListener = (error: unknown) => void;

const listeners = new AsyncLocalStorage<StrayErrorListener>();

/**
 * Does foreign work. What it starts and does not wait for may go wrong later: a timer, a callback or an event throws, or
 * a promise that nobody holds is rejected. Such an error goes to `onStrayError`, and to nothing else in the process.
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
