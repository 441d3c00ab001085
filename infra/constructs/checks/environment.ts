import { CONFIG_PREFIX, RUNTIME_TELEMETRY_OFF } from '../../../lambda/configKeys.ts';
import type { Problem } from '../base/refuse.ts';

type Environment = Readonly<Record<string, string>>;

/** @see https://docs.aws.amazon.com/lambda/latest/api/API_Environment.html */
const NAME = /^[a-zA-Z]\w+$/;

/** The host's own variables come from the props: one that is set twice would contradict what was checked. */
export function environmentProblems(environment: Environment): Problem[] {
  const names = Object.keys(environment);
  return [
    named(
      names.filter((name) => name.startsWith(CONFIG_PREFIX)),
      `no name that begins with ${CONFIG_PREFIX}, as the construct sets those`,
      'set it with tuning or another prop',
    ),
    named(
      names.filter((name) => !NAME.test(name)),
      'names of a letter followed by letters, digits and _, at least two in all',
      'rename it',
    ),
    named(
      names.filter((name) => name === RUNTIME_TELEMETRY_OFF && environment[name] !== '1'),
      `no ${RUNTIME_TELEMETRY_OFF} but 1, as nothing leaves the account`,
      'leave it out',
    ),
  ];
}

function named(names: readonly string[], expected: string, cure: string): Problem {
  return names.length === 0 ? undefined : `environment: expected ${expected}, got ${names.join(', ')}; ${cure}`;
}
