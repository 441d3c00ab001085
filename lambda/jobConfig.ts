import type { z } from 'zod';
import { CONFIG_KEYS, JOB_CONFIG_KEYS } from './configKeys.ts';
import { CONFIG_SCHEMA } from './configSchema.ts';
import { countOrDefault, text } from './configValues.ts';
import { JOB_RANGES } from './core/limits.ts';
import { IN_OUR_WORDS } from './core/wrongValue.ts';
import { defaultsByMemory, describeIssue, unknownVariables } from './hosts/config.ts';

const KEYS: Readonly<Record<string, string>> = { ...CONFIG_KEYS, ...JOB_CONFIG_KEYS };

/** What of a host's settings is about models, runs and logs: the function that scores jobs has no queue. */
const SCORE_SCHEMA = CONFIG_SCHEMA.pick({
  modelsDirectory: true,
  modelsUri: true,
  defaultModel: true,
  preload: true,
  providers: true,
  allowProviderFallback: true,
  maxBatchRows: true,
  maxBatchElements: true,
  maxRequestRows: true,
  maxRequestsPerMessage: true,
  maxAnswerCharacters: true,
  maxPayloadBytes: true,
  checkPercent: true,
  serviceName: true,
  logLevel: true,
}).extend({
  /** Bytes of a part. */
  jobsPartBytes: countOrDefault(JOB_RANGES.partBytes),
  /** Bytes of a piece. */
  jobsPieceBytes: countOrDefault(JOB_RANGES.pieceBytes),
});

const KEY_PREFIX = text("a path that ends in '/'").regex(/^([\w.=+-]+\/)+$/, "expected a path that ends in '/'");

/** Of the function that starts jobs and finishes them. */
const CONTROL_SCHEMA = CONFIG_SCHEMA.pick({ serviceName: true, logLevel: true }).extend({
  /** The bucket that inputs lie in, and outputs are written to. */
  jobsBucket: text('the name of an S3 bucket'),
  /** Objects under it are inputs. */
  jobsInputPrefix: KEY_PREFIX,
  /** Each job has a folder under it. */
  jobsOutputPrefix: KEY_PREFIX,
  /** ARN of the state machine. */
  jobsStateMachine: text('the ARN of a state machine').startsWith('arn:', 'expected the ARN of a state machine'),
  /** Most calls of one job at a time, unless it asks for fewer. */
  jobsConcurrency: countOrDefault(JOB_RANGES.concurrency),
});

export type JobScoreConfig = Readonly<z.infer<typeof SCORE_SCHEMA>>;
export type JobControlConfig = Readonly<z.infer<typeof CONTROL_SCHEMA>>;

type Environment = Readonly<Record<string, string | undefined>>;

/** @throws Error naming every variable that is wrong or not known to the function that scores jobs */
export function loadJobScoreConfig(environment: Environment): JobScoreConfig {
  const defaults = defaultsByMemory(environment);
  return load(SCORE_SCHEMA, environment, defaults);
}

/** @throws Error naming every variable that is wrong, missing or not known to the function that starts jobs */
export function loadJobControlConfig(environment: Environment): JobControlConfig {
  return load(CONTROL_SCHEMA, environment, {});
}

function load<S extends z.ZodObject>(
  schema: S,
  environment: Environment,
  defaults: Readonly<Record<string, string>>,
): Readonly<z.infer<S>> {
  const names = Object.keys(schema.shape);
  const keys = Object.fromEntries(names.map((name) => [name, KEYS[name] ?? name]));
  const problems = unknownVariables(environment, schema.shape, keys);
  const raw = Object.fromEntries(
    names
      .map((name) => [name, environment[keys[name] ?? name] ?? defaults[name]])
      .filter(([, value]) => value !== undefined),
  );
  const parsed = schema.safeParse(raw, IN_OUR_WORDS);
  if (!parsed.success) problems.push(...parsed.error.issues.map((issue) => describeIssue(issue, raw, keys)));
  if (!parsed.success || problems.length > 0) throw new Error(`configuration: ${problems.join('; ')}`);
  return Object.freeze(parsed.data);
}
