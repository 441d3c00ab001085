import { pathToFileURL } from 'node:url';
import { messageOf } from '../../core/failure.ts';
import type { Transform } from '../../core/transform.ts';

/**
 * Imports a model's transform module.
 *
 * @throws Error naming the file when it cannot be imported or exports neither `decode` nor `encode`
 */
export async function loadTransform(path: string): Promise<Transform> {
  const { decode, encode } = await importModule(path);
  if (!isHook(decode) || !isHook(encode) || (decode === undefined && encode === undefined)) {
    throw new Error(
      `${path}: expected functions exported as decode, encode or both, got neither; see docs/transforms.md`,
    );
  }
  return { ...(decode && { decode }), ...(encode && { encode }) } as Transform;
}

async function importModule(path: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await import(pathToFileURL(path).href);
  } catch (cause) {
    throw new Error(`${path}: expected a module with the model's transform, importing it failed: ${messageOf(cause)}`, {
      cause,
    });
  }
}

function isHook(value: unknown): value is ((argument: unknown) => unknown) | undefined {
  return value === undefined || typeof value === 'function';
}
