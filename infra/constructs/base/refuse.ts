/** What is wrong with a setting, one sentence: what was expected, what came and what to do. Undefined: nothing. */
export type Problem = string | undefined;

/** @throws Error with every problem in one sentence, where there is one */
export function refuse(problems: readonly Problem[]): void {
  const found = problems.filter((problem) => problem !== undefined);
  if (found.length > 0) throw new Error(found.join('; '));
}

/** A word must be one of a closed list. Undefined is left to the default. */
export function oneOf(name: string, value: unknown, allowed: readonly unknown[]): Problem {
  if (value === undefined || allowed.includes(value)) return undefined;
  return `${name}: expected ${allowed.join(', ')}, got ${value}; take one of them`;
}
