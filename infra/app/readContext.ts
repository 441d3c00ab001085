import type { z } from 'zod';
import { didYouMean, IN_OUR_WORDS } from '../../lambda/core/wrongValue.ts';
import { type Problem, refuse } from '../constructs/base/refuse.ts';
import { COMPUTE_KINDS, CONTEXT, type ContextKey, KEYS_OF_JOBS, KEYS_OF_KIND, type Settings } from './contextKeys.ts';

/**
 * The app's settings from the context of `cdk.json` and `-c`.
 *
 * @throws Error naming everything that is wrong
 */
export function readContext(context: Readonly<Record<string, unknown>>): Settings {
  const own = Object.fromEntries(Object.entries(context).filter(([key]) => !isOfCdk(key)));
  const parsed = CONTEXT.safeParse(own, IN_OUR_WORDS);
  if (parsed.success) refuse([...keysOfOtherKinds(parsed.data), minutesAlone(parsed.data), ...jobsAlone(parsed.data)]);
  else refuse(parsed.error.issues.flatMap((issue) => describe(issue, own)));
  return CONTEXT.parse(own);
}

/** Keys that the CDK keeps in the context itself; its feature flags and lookups all have a prefix. */
const KEYS_OF_CDK = ['cli-telemetry', 'acknowledged-issue-numbers'];

function isOfCdk(key: string): boolean {
  return key.startsWith('@') || key.includes(':') || KEYS_OF_CDK.includes(key);
}

function describe(issue: z.core.$ZodIssue, own: Readonly<Record<string, unknown>>): string[] {
  if (issue.code === 'unrecognized_keys') return issue.keys.map(unknownKey);
  const key = String(issue.path[0]);
  return [`${key}: ${issue.message}, got ${JSON.stringify(own[key])}; change it in cdk.json or with -c ${key}=…`];
}

function unknownKey(key: string): string {
  const hint = didYouMean(key, CONTEXT.shape) ?? 'docs/configuration.md lists them';
  return `${key}: expected a context key of this app, got an unknown one; ${hint}`;
}

function keysOfOtherKinds(settings: Settings): Problem[] {
  const keys = new Set(COMPUTE_KINDS.flatMap((kind) => KEYS_OF_KIND[kind]));
  return [...keys].map((key) => keyOfOtherKinds(settings, key));
}

function minutesAlone({ canaryPercent, canaryMinutes }: Settings): Problem {
  if (canaryMinutes === undefined || canaryPercent !== undefined) return undefined;
  return `canaryMinutes: expected only with canaryPercent, got ${canaryMinutes} without it; give both, or leave it out`;
}

function jobsAlone(settings: Settings): Problem[] {
  if (settings.jobs === true) return [];
  const given = KEYS_OF_JOBS.filter((key) => settings[key] !== undefined);
  return given.map(
    (key) => `${key}: expected only with jobs=true, got ${settings[key]} without it; give both, or leave it out`,
  );
}

function keyOfOtherKinds(settings: Settings, key: ContextKey): Problem {
  const kinds = COMPUTE_KINDS.filter((kind) => KEYS_OF_KIND[kind].includes(key));
  if (settings[key] === undefined || kinds.includes(settings.compute)) return undefined;
  return `${key}: expected only with compute=${kinds.join(' or ')}, got it with compute=${settings.compute}; leave it out`;
}
