import { CONFIG_PREFIX } from '../../../lambda/configKeys.ts';
import type { Problem } from '../base/refuse.ts';

/** The host's own variables come from the props: one that is set twice would contradict what was checked. */
export function environmentProblem(environment: Readonly<Record<string, string>>): Problem {
  const ours = Object.keys(environment).filter((name) => name.startsWith(CONFIG_PREFIX));
  if (ours.length === 0) return undefined;
  return (
    `environment: expected no name that begins with ${CONFIG_PREFIX}, as the construct sets those, ` +
    `got ${ours.join(', ')}; set it with tuning or another prop`
  );
}
