/** What is wrong with a setting: what was expected, what came and what to do. Undefined if nothing is. */
export type Problem = string | undefined;

/** @throws Error with every problem, if there is one */
export function refuse(problems: readonly Problem[]): void {
  const found = problems.filter((problem) => problem !== undefined);
  if (found.length > 0) throw new Error(found.join('; '));
}

/** What is wrong with a value that must be one of a closed list. An undefined one is left to its default. */
export function oneOf(name: string, value: unknown, allowed: readonly unknown[]): Problem {
  if (value === undefined || allowed.includes(value)) return undefined;
  return `${name}: expected one of ${allowed.join(', ')}, got ${value}; take one of them`;
}
