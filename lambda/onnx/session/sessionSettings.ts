/**
 * The session settings that ONNX Runtime is given as `extra`, by their full names: what is given replaces the defaults
 * one by one, whether its names are nested or written out.
 *
 * @param given as in `sessionOptions.extra`
 * @param defaults by full name
 */
export function sessionSettings(given: unknown, defaults: Readonly<Record<string, string>>): Record<string, unknown> {
  return { ...defaults, ...Object.fromEntries(fullNames(given)) };
}

/** Each setting by its full name, whether it is given nested or written out. */
export function fullNames(settings: unknown, prefix = ''): [string, unknown][] {
  return Object.entries(settings ?? {}).flatMap(([key, value]): [string, unknown][] =>
    typeof value === 'object' ? fullNames(value, `${prefix}${key}.`) : [[prefix + key, value]],
  );
}
