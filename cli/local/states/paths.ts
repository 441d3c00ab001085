import type { Template } from '../../../infra/jobs/jobDefinition.ts';
import { RUNTIME, StateError } from './stateError.ts';

/** What paths lead into: `$` the data of a state, `$$` the context. */
export interface Scope {
  readonly data: unknown;
  readonly context?: unknown;
}

const PATH = /^\$\$?(\.\w+)*$/;
const FORMAT = /^States\.Format\('([^']*)', (\$[\w.]*)\)$/;

/** @throws StateError when there is nothing at the path, or it is none that the local stack knows */
export function read(path: string, scope: Scope): unknown {
  const found = find(path, scope);
  if (found === undefined) throw new StateError(RUNTIME, `${path}: expected something there, got nothing`);
  return found;
}

/** What is at a path; undefined if nothing is. */
export function find(path: string, { data, context }: Scope): unknown {
  if (!PATH.test(path)) {
    throw new StateError(
      RUNTIME,
      `${path}: expected $, $$ and names after dots, which is all that the local stack knows`,
    );
  }
  const [root, ...names] = path.split('.');
  return names.reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), root === '$$' ? context : data);
}

/** A template with what its paths lead to: in each key that ends in `.$`, which loses it. */
export function fill(template: Template, scope: Scope): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(template).map(([key, value]) => {
      if (typeof value !== 'string') return [key, fill(value, scope)];
      return key.endsWith('.$') ? [key.slice(0, -2), evaluate(value, scope)] : [key, value];
    }),
  );
}

function evaluate(expression: string, scope: Scope): unknown {
  const [, format, path] = FORMAT.exec(expression) ?? [];
  return format === undefined || path === undefined
    ? read(expression, scope)
    : format.replace('{}', () => String(read(path, scope)));
}

/** The data with a result put in: at `$` in its place, at `$.name` beside what is there, and with null nowhere. */
export function place(path: string | null, data: unknown, result: unknown): unknown {
  if (path === null) return data;
  if (path === '$') return result;
  const [, name] = /^\$\.(\w+)$/.exec(path) ?? [];
  if (name === undefined || !isObject(data)) {
    throw new StateError(
      RUNTIME,
      `${path}: expected null, $ or $.name of an object, which is all that the local stack knows`,
    );
  }
  return { ...data, [name]: result };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
