import { totalmem } from 'node:os';
import { shareOfMemory } from '../core/limits.ts';
import { nearestName } from '../core/wrongValue.ts';
import {
  type Catalogue,
  CONFIG_KEYS,
  CONFIG_PREFIX,
  JOB_CONTROL_SETTINGS,
  JOB_SCORE_SETTINGS,
  SETTINGS,
  type SettingName,
  STORE_SETTINGS,
  STORES,
  type ValuesOf,
} from '../settings.ts';

export type Config = ValuesOf<typeof SETTINGS>;
type JobScoreConfig = ValuesOf<typeof JOB_SCORE_SETTINGS>;
type JobControlConfig = ValuesOf<typeof JOB_CONTROL_SETTINGS>;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the host's configuration from its environment, once at cold start.
 *
 * @throws Error naming every variable that is wrong, missing or unknown
 */
export function loadConfig(environment: Environment): Config {
  return load(SETTINGS, environment, rulesThatAreBroken);
}

/** @throws Error naming every variable that is wrong, or unknown to the function that scores jobs */
export function loadJobScoreConfig(environment: Environment): JobScoreConfig {
  return load(JOB_SCORE_SETTINGS, environment);
}

/** @throws Error naming every variable that is wrong, missing, or unknown to the function that starts jobs */
export function loadJobControlConfig(environment: Environment): JobControlConfig {
  return load(JOB_CONTROL_SETTINGS, environment);
}

function load<C extends Catalogue>(
  catalogue: C,
  environment: Environment,
  joint: (values: Partial<ValuesOf<C>>, environment: Environment) => string[] = () => [],
): ValuesOf<C> {
  const problems = unknownVariables(environment, catalogue);
  const values: Record<string, unknown> = {};
  for (const [name, { variable, expected, read, max, default: fallback, isRequired, isByMemory }] of Object.entries(
    catalogue,
  )) {
    const text = environment[variable] ?? (isByMemory ? shareOf(environment, max) : undefined);
    const value = text === undefined ? fallback : read(text);
    if (value !== undefined) values[name] = value;
    else if (text !== undefined) problems.push(`${variable}: expected ${expected}, got ${JSON.stringify(text)}`);
    else if (isRequired) problems.push(`${variable}: expected ${expected}, got nothing; set it`);
  }
  // Each value comes from its kind or its default, so its type is the catalogue's.
  problems.push(...joint(values as Partial<ValuesOf<C>>, environment));
  if (problems.length > 0) throw new Error(`configuration: ${problems.join('; ')}`);
  Object.freeze(values);
  return values as ValuesOf<C>;
}

/** Returns a problem for every unknown variable with our prefix, because a misspelt setting would be ignored. */
export function unknownVariables(environment: Environment, catalogue: Catalogue = SETTINGS): string[] {
  const known = new Map(Object.values(catalogue).map(({ variable, expected }) => [variable, expected]));
  return Object.keys(environment)
    .filter((key) => key.startsWith(CONFIG_PREFIX) && !known.has(key))
    .map((key) => {
      const nearest = nearestName(key, [...known.keys()]);
      const hint =
        nearest === undefined ? 'docs/configuration.md lists them' : `did you mean ${nearest}, ${known.get(nearest)}?`;
      return `${key}: expected a variable of batchscore, got an unknown one; ${hint}`;
    });
}

const MIB = 1024 * 1024;

/** Returns a share of the memory of the function, the container or the machine. */
function shareOf({ AWS_LAMBDA_FUNCTION_MEMORY_SIZE: functionMb }: Environment, max = Number.POSITIVE_INFINITY): string {
  const share = shareOfMemory(functionMb === undefined ? ownMemoryMb() : Number(functionMb));
  return String(Math.min(share, max));
}

/** Returns the memory of the container or the machine. */
export function ownMemoryMb(): number {
  // Without a limit, `constrainedMemory` is 0 or exceeds the machine's memory.
  return Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) / MIB;
}

type Values = Partial<Config>;

/** Rule about several settings: the setting to name, the condition, and the message. */
interface Rule {
  readonly of: SettingName;
  readonly isBroken: (values: Values, isGiven: (name: SettingName) => boolean) => boolean;
  readonly sentence: (values: Values) => string;
}

const isFifo = (url: string): boolean => url.endsWith('.fifo');

/** Returns the URLs of all queues that requests are received from. */
export function queuesOf({ requestQueueUrls = [], urgentQueueUrl }: Values): readonly string[] {
  return urgentQueueUrl === undefined ? requestQueueUrls : [...requestQueueUrls, urgentQueueUrl];
}

const RULES: readonly Rule[] = [
  {
    of: 'modelsUri',
    isBroken: (_, isGiven) => isGiven('modelsUri') && isGiven('modelsDirectory'),
    sentence: () => `expected it or ${CONFIG_KEYS.modelsDirectory}, got both; unset one of them`,
  },
  ...STORES.map((store): Rule => {
    const [of] = Object.keys(STORE_SETTINGS[store]) as [SettingName];
    return {
      of,
      isBroken: ({ results = [] }, isGiven) => results.includes(store) && !isGiven(of),
      sentence: () => `expected a value, because results go to the ${store}, got nothing; set it`,
    };
  }),
  {
    of: 'captureBucket',
    isBroken: ({ capturePercent = 0 }, isGiven) => capturePercent > 0 && !isGiven('captureBucket'),
    sentence: () => 'expected a value, because samples are kept, got nothing; set it',
  },
  {
    // Standard records have no group, and results of FIFO records wait for those of their group.
    of: 'requestQueueUrls',
    isBroken: (values) => queuesOf(values).some(isFifo) && !queuesOf(values).every(isFifo),
    sentence: (values) =>
      `expected queues of one kind, FIFO or standard, got ${JSON.stringify(queuesOf(values).join(','))}; ` +
      'give each kind a deployment of its own',
  },
  {
    of: 'urgentQueueUrl',
    isBroken: ({ requestQueueUrls = [], urgentQueueUrl = '' }) => requestQueueUrls.includes(urgentQueueUrl),
    sentence: ({ urgentQueueUrl }) =>
      `expected another queue than the request queue, got ${JSON.stringify(urgentQueueUrl)}; give each its own`,
  },
  {
    of: 'resultsPerMessage',
    isBroken: ({ results = ['queue'], resultsPerMessage = 1 }) => resultsPerMessage !== 1 && !results.includes('queue'),
    sentence: ({ resultsPerMessage }) =>
      `expected 1, because no results go to a queue, got ${JSON.stringify(String(resultsPerMessage))}; unset it`,
  },
  {
    of: 'resultsPerMessage',
    isBroken: ({ resultsPerMessage = 1, requestQueueUrls = [], resultQueueUrl = '' }) =>
      resultsPerMessage !== 1 && isFifo(resultQueueUrl) && !requestQueueUrls.every(isFifo),
    sentence: ({ resultsPerMessage }) =>
      'expected 1, because results of a standard request queue have no message group to share on a FIFO result queue, ' +
      `got ${JSON.stringify(String(resultsPerMessage))}; unset it, or use queues of one kind`,
  },
  {
    // Each result would become a request, in an endless loop.
    of: 'resultQueueUrl',
    isBroken: ({ results = [], resultQueueUrl = '', ...values }) =>
      results.includes('queue') && queuesOf(values).includes(resultQueueUrl),
    sentence: ({ resultQueueUrl }) =>
      `expected another queue than the requests', got ${JSON.stringify(resultQueueUrl)}; give each its own`,
  },
  {
    of: 'clientQueueUrls',
    isBroken: ({ clientQueueUrls = [], resultQueueUrl = '', ...values }) =>
      clientQueueUrls.some((url) => queuesOf(values).includes(url) || isFifo(url) !== isFifo(resultQueueUrl)),
    sentence: ({ clientQueueUrls = [] }) =>
      `expected queues of the kind of the result queue, none of them a request queue, got ` +
      `${JSON.stringify(clientQueueUrls.join(','))}; give each client a queue of its own`,
  },
];

function rulesThatAreBroken(values: Values, environment: Environment): string[] {
  const isGiven = (name: SettingName): boolean => environment[CONFIG_KEYS[name]] !== undefined;
  return RULES.filter(({ isBroken }) => isBroken(values, isGiven)).map(
    ({ of, sentence }) => `${CONFIG_KEYS[of]}: ${sentence(values)}`,
  );
}
