import { pathToFileURL } from 'node:url';
import { deferred } from '../../../core/base/deferred.ts';
import { messageOf } from '../../../core/contract/failure.ts';
import type { Transform } from '../../../core/contract/transform.ts';

/** How long a hook's promise may take to settle: one that never does must not hold up other requests. */
const HOOK_LIMIT_MS = 5_000;

/**
 * Imports a model's transform module.
 *
 * @throws Error naming the file when it cannot be imported or exports neither `decode` nor `encode`
 */
export async function loadTransform(path: string, limitMs = HOOK_LIMIT_MS): Promise<Transform> {
  const { decode, encode } = await importModule(path);
  if (!isHook(decode) || !isHook(encode) || (decode === undefined && encode === undefined)) {
    throw new Error(
      `${path}: expected functions exported as decode, encode or both, got neither; see docs/transforms.md`,
    );
  }
  return {
    ...(decode && { decode: limited(decode, 'decode', limitMs) }),
    ...(encode && { encode: limited(encode, 'encode', limitMs) }),
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

/** The hook, rejecting in place of a promise that does not settle in time. */
function limited(hook: Hook, name: string, limitMs: number): Hook {
  return (argument) => {
    const given = hook(argument);
    if (!(given instanceof Promise)) return given;
    const { promise, resolve, reject } = deferred<unknown>();
    const late = () => reject(new Error(`expected the transform's ${name} to settle within ${limitMs} ms, it did not`));
    const timer = setTimeout(late, limitMs);
    given.then(resolve, reject).finally(() => clearTimeout(timer));
    return promise;
  };
}
