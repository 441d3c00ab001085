import { totalmem } from 'node:os';
import type { z } from 'zod';
import { CONFIG_KEYS, CONFIG_PREFIX } from '../configKeys.ts';
import { CONFIG_SCHEMA, type Config } from '../configSchema.ts';
import { RANGES_BY_MEMORY, shareOfMemory } from '../core/limits.ts';
import { didYouMean, IN_OUR_WORDS } from '../core/wrongValue.ts';

const MIB = 1024 * 1024;

const REQUIRED_BY_STORE = { queue: 'resultQueueUrl', table: 'resultTable', bucket: 'resultBucket' } as const;

/**
 * The host's configuration from its environment, read once at cold start.
 *
 * @throws Error naming every variable that is wrong, missing or not known
 */
export function loadConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const raw: Record<string, string> = defaultsByMemory(environment);
  const problems = unknownVariables(environment);
  for (const [name, key] of Object.entries(CONFIG_KEYS)) {
    const value = environment[key];
    if (value !== undefined) raw[name] = value;
  }
  const parsed = CONFIG_SCHEMA.safeParse(raw, IN_OUR_WORDS);
  problems.push(...problemsOfModels(raw), ...problemsOfStores(raw));
  if (parsed.success) problems.push(...problemsOfPacking(parsed.data), ...problemsOfQueues(parsed.data));
  else problems.push(...parsed.error.issues.map((issue) => describeIssue(issue, raw, CONFIG_KEYS)));
  if (!parsed.success || problems.length > 0) throw new Error(`configuration: ${[...new Set(problems)].join('; ')}`);
  return Object.freeze(parsed.data);
}

/**
 * Every variable with our prefix that is not known: a setting that is misspelt would be passed over.
 *
 * @param shape what each setting may be
 * @param keys the variable of each setting
 */
export function unknownVariables(
  environment: Readonly<Record<string, string | undefined>>,
  shape: Readonly<Record<string, z.ZodType>> = CONFIG_SCHEMA.shape,
  keys: Readonly<Record<string, string>> = CONFIG_KEYS,
): string[] {
  const known = Object.fromEntries(Object.entries(shape).map(([name, schema]) => [keys[name] ?? name, schema]));
  return Object.keys(environment)
    .filter((key) => key.startsWith(CONFIG_PREFIX) && !Object.hasOwn(known, key))
    .map((key) => {
      const hint = didYouMean(key, known) ?? 'docs/configuration.md lists them';
      return `${key}: expected a variable of batchscore, got an unknown one; ${hint}`;
    });
}

/** The memory is the function's; where there is no function, the container's, or the machine's. */
export function defaultsByMemory({
  AWS_LAMBDA_FUNCTION_MEMORY_SIZE: functionMb,
}: Readonly<Record<string, string | undefined>>): Record<string, string> {
  // Without a limit it is 0, or more than there is.
  const ownMemory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const share = shareOfMemory(functionMb === undefined ? ownMemory / MIB : Number(functionMb));
  return Object.fromEntries(
    Object.entries(RANGES_BY_MEMORY).map(([name, { most }]) => [name, String(Math.min(share, most))]),
  );
}

/** One of two would be passed over. */
function problemsOfModels({ modelsDirectory, modelsUri }: Readonly<Record<string, string>>): string[] {
  if (modelsDirectory === undefined || modelsUri === undefined) return [];
  return [`${CONFIG_KEYS.modelsUri}: expected it or ${CONFIG_KEYS.modelsDirectory}, got both; unset one of them`];
}

/** Each store that results go to must be named. */
function problemsOfStores(raw: Readonly<Record<string, string>>): string[] {
  const stores = CONFIG_SCHEMA.shape.results.safeParse(raw.results);
  return (stores.data ?? []).flatMap((store) => {
    const needed = REQUIRED_BY_STORE[store];
    if (raw[needed] !== undefined) return [];
    return [`${CONFIG_KEYS[needed]}: expected a value, because results go to the ${store}, got nothing; set it`];
  });
}

/** Each result would be taken for a request, and be answered with a result, without end. */
function problemsOfQueues({ results, requestQueueUrls, resultQueueUrl = '' }: Config): string[] {
  if (!results.includes('queue') || !requestQueueUrls.includes(resultQueueUrl)) return [];
  const got = JSON.stringify(resultQueueUrl);
  return [`${CONFIG_KEYS.resultQueueUrl}: expected another queue than the requests', got ${got}; give each its own`];
}

/** Results that cannot share messages, whatever the setting. */
function problemsOfPacking({ results, resultsPerMessage, requestQueueUrls, resultQueueUrl }: Config): string[] {
  if (resultsPerMessage === 1) return [];
  const expectedOne = (because: string, cure: string) => [
    `${CONFIG_KEYS.resultsPerMessage}: expected 1, because ${because}, got ${JSON.stringify(String(resultsPerMessage))}; ${cure}`,
  ];
  if (!results.includes('queue')) return expectedOne('no results go to a queue', 'unset it');
  if (resultQueueUrl?.endsWith('.fifo') && !requestQueueUrls.every((url) => url.endsWith('.fifo'))) {
    return expectedOne(
      'results of a standard request queue have no message group to share on a FIFO result queue',
      'unset it, or use queues of one kind',
    );
  }
  return [];
}

/** @param keys the variable of each setting */
export function describeIssue(
  issue: z.core.$ZodIssue,
  raw: Readonly<Record<string, string>>,
  keys: Readonly<Record<string, string>>,
): string {
  const name = String(issue.path[0]);
  const key = Object.entries(keys).find(([known]) => known === name)?.[1] ?? name;
  return `${key}: ${issue.message}, got ${raw[name] === undefined ? 'nothing; set it' : JSON.stringify(raw[name])}`;
}
