import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Duration, RemovalPolicy, Size } from 'aws-cdk-lib';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import fc from 'fast-check';
import {
  type BatchScoringProps,
  type Compute,
  ecsCompute,
  ecsGpuCompute,
  lambdaCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { loadConfig, loadJobControlConfig, loadJobScoreConfig } from '../../lambda/hosts/config.ts';
import {
  type Catalogue,
  JOB_CONTROL_SETTINGS,
  JOB_SCORE_SETTINGS,
  type Kind,
  SETTINGS,
  type Setting,
} from '../../lambda/settings.ts';
import { docPage, REPOSITORY } from '../helpers/command.ts';
import { createScoring, refusalOf, templateOf } from '../helpers/stacks.ts';

const PAGE = docPage('configuration.md');
const URL = 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests';

/** A value for each variable that some deployment must have. */
const REQUIRED: Readonly<Record<string, string>> = {
  BATCHSCORE_CAPTURE_BUCKET: 'samples',
  BATCHSCORE_REQUEST_QUEUE_URL: URL,
  BATCHSCORE_RESULT_QUEUE_URL: `${URL}-results`,
  BATCHSCORE_RESULT_TABLE: 'results-table',
  BATCHSCORE_RESULT_BUCKET: 'results-bucket',
};
const REQUIRED_BY_JOBS: Readonly<Record<string, string>> = {
  BATCHSCORE_JOBS_BUCKET: 'bucket',
  BATCHSCORE_JOBS_INPUT_PREFIX: 'jobs/in/',
  BATCHSCORE_JOBS_OUTPUT_PREFIX: 'jobs/out/',
  BATCHSCORE_JOBS_STATE_MACHINE: 'arn:aws:states:eu-central-1:123456789012:stateMachine:jobs',
};

type Load = (environment: Readonly<Record<string, string | undefined>>) => object;

const HOSTS: readonly (readonly [
  host: string,
  catalogue: Catalogue,
  load: Load,
  required: Readonly<Record<string, string>>,
])[] = [
  ['a host of messages', SETTINGS, loadConfig, REQUIRED],
  ['the function that scores jobs', JOB_SCORE_SETTINGS, loadJobScoreConfig, {}],
  ['the function that starts jobs', JOB_CONTROL_SETTINGS, loadJobControlConfig, REQUIRED_BY_JOBS],
];

type Ranged = Kind<unknown> & { readonly min: number; readonly max: number };
const isRanged = (kind: Kind<unknown>): kind is Ranged => 'min' in kind;

/** Numbers that are none of a range, whatever its kind reads: too small, too large, no number. */
const outOf = ({ min, max }: Ranged) =>
  fc.oneof(
    fc.integer({ min: max + 1, max: 2 * max + 2 }).map(String),
    fc.integer({ min: min - 1000, max: min - 1 }).map(String),
    fc.constantFrom('', ' ', 'many', '1e99', 'NaN'),
  );

/** Of the others: what is refused of texts that are wrong for some kind or other. */
const WRONG = ['', ' ,', 'yes please', 'True', '//', 's3://bucket/models', 'x,,y', 'tabel', 'queue,queue'];

const wrongTexts = (setting: Setting): fc.Arbitrary<string> => {
  if (isRanged(setting)) return outOf(setting);
  const wrong = WRONG.filter((text) => setting.read(text) === undefined);
  expect(wrong).not.toEqual([]);
  return fc.constantFrom(...wrong);
};

function sentenceOf(make: () => unknown): string {
  try {
    make();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return 'not refused';
}

describe.each(HOSTS)('%s', (_, catalogue, load, required) => {
  it('refuses every value that is none of a setting, naming the variable, what it takes and what came', () => {
    for (const setting of Object.values(catalogue)) {
      const { variable, expected } = setting;
      fc.assert(
        fc.property(wrongTexts(setting), (text) => {
          const said = `${variable}: expected ${expected}, got ${JSON.stringify(text)}`;
          expect(sentenceOf(() => load({ ...required, [variable]: text }))).toContain(said);
        }),
        { numRuns: 12 },
      );
    }
  });

  it('takes both ends of every range, and no fraction of a whole number', () => {
    for (const [name, setting] of Object.entries(catalogue)) {
      if (!isRanged(setting)) continue;
      const { variable, min, max, expected } = setting;
      for (const value of [min, max]) {
        const config = load({ ...required, [variable]: String(value) });
        expect(config).toHaveProperty(name, value);
      }
      if (expected.includes('whole')) expect(setting.read(String(min + 0.5))).toBeUndefined();
    }
  });

  it('is not started without what is required, or with a variable that it does not know', () => {
    for (const { variable, isRequired } of Object.values<Setting>(catalogue)) {
      if (!isRequired) continue;
      expect(sentenceOf(() => load({ ...required, [variable]: undefined }))).toMatch(
        new RegExp(`^configuration: ${variable}: expected .*, got nothing; set it`),
      );
    }
    expect(sentenceOf(() => load({ ...required, BATCHSCORE_COLOUR: 'red' }))).toBe(
      'configuration: BATCHSCORE_COLOUR: expected a variable of batchscore, got an unknown one; docs/configuration.md lists them',
    );
  });
});

/** The props that a setting of the host is given by, where it is one of the construct. */
const PROPS: Readonly<Record<string, (value: number) => Partial<BatchScoringProps<Compute>>>> = {
  batchSize: (batchSize) => ({ batchSize }),
  resultsPerMessage: (resultsPerMessage) => ({ resultsPerMessage }),
  resultTtlSeconds: (seconds) => ({ results: ['table'], resultTtl: Duration.seconds(Math.max(0, seconds)) }),
  maxPolls: (maxPolls) => ({ compute: ecsCompute({ maxPolls }) }),
  pipelineDepth: (pipelineDepth) => ({ compute: ecsCompute({ pipelineDepth }) }),
};
/** Those whose prop has another name, and a unit. */
const OTHERS: Readonly<Record<string, readonly [prop: string, unit: string]>> = {
  resultTtlSeconds: ['resultTtl', ' of seconds'],
};
/** The numbers of the tuning, as docs/construct.md lists them from the code. */
const [, TUNING = ''] = docPage('construct.md').split('\n### Tuning\n');
const OF_TUNING = [...(TUNING.split('\n### ')[0] ?? '').matchAll(/^\| `(\w+): number` \|/gm)].map(
  ([, name]) => name as 'maxBatchRows',
);

describe('the construct', () => {
  it.each(Object.entries(PROPS))(
    'refuses %s where the host would, naming setting, range and what came',
    (name, props) => {
      const setting = Object.entries<Setting>(SETTINGS).find(([known]) => known === name)?.[1];
      if (setting === undefined || !isRanged(setting))
        throw new Error(`${name}: expected a setting with a range, got none`);
      const { min, max } = setting;
      for (const value of [min - 1, max + 1]) {
        const said = refusalOf(props(value));
        const [prop, unit] = OTHERS[name] ?? [name, ''];
        expect(said).toContain(` ${prop}: expected a whole number${unit} from ${min} to ${max}`);
        expect(said).toContain(`, got ${value}; choose one`);
      }
    },
  );

  it('refuses of the tuning what the host would', () => {
    for (const name of OF_TUNING) {
      const { min, max } = SETTINGS[name];
      for (const value of [min - 1, min + 0.5, max + 1]) {
        expect(refusalOf({ tuning: { [name]: value } })).toBe(
          `Test/Scoring: tuning.${name}: expected a whole number from ${min} to ${max}, got ${value}; choose one in that range`,
        );
      }
      for (const value of [min, max]) expect(refusalOf({ tuning: { [name]: value } })).toBe('not refused');
    }
  });
});

const { seconds } = Duration;
const ANY_QUEUE = {
  maxReceiveCount: 20,
  shards: 1,
  results: ['queue'],
  resultsPerMessage: 1,
  resultTtl: Duration.days(7),
  payloadExpiry: Duration.days(30),
  removalPolicy: RemovalPolicy.RETAIN,
  logRetention: RetentionDays.ONE_MONTH,
  tracing: false,
  dashboard: true,
  eventSourceEnabled: true,
  alarmThresholds: { retriedPercent: 5, errorPercent: 50 },
} satisfies Partial<BatchScoringProps>;
const STANDARD = { ...ANY_QUEUE, batchSize: 100, window: seconds(1), fifo: false };
const SERVICE = { timeout: seconds(60), stopTimeout: seconds(120), minimumTasks: 0, maximumTasks: 4, spot: false };

describe('the defaults that docs/construct.md states', () => {
  it.each<[string, Partial<BatchScoringProps<Compute>>, Partial<BatchScoringProps<Compute>>]>([
    [
      'a standard queue and a function',
      { ...STANDARD, latencyTarget: seconds(61) },
      {
        compute: lambdaCompute({
          architecture: Architecture.ARM_64,
          memorySize: Size.mebibytes(1769),
          ephemeralStorageSize: Size.mebibytes(512),
          timeout: seconds(60),
        }),
      },
    ],
    ['a FIFO queue', { ...ANY_QUEUE, fifo: true, batchSize: 10, window: seconds(0) }, {}],
    [
      'a function on GPUs',
      { ...STANDARD, compute: lambdaGpuCompute() },
      {
        compute: lambdaGpuCompute({
          memorySize: Size.gibibytes(8),
          gpuMemory: Size.gibibytes(16),
          timeout: seconds(300),
          minimumEnvironments: 1,
          maximumEnvironments: 2,
        }),
      },
    ],
    [
      'Fargate',
      { ...STANDARD, compute: ecsCompute() },
      { compute: ecsCompute({ ...SERVICE, vcpus: 1, memorySize: Size.gibibytes(2), backlogPerTask: 1000 }) },
    ],
    [
      'GPUs on ECS',
      { ...STANDARD, compute: ecsGpuCompute() },
      {
        compute: ecsGpuCompute({
          ...SERVICE,
          vcpus: 3,
          memorySize: Size.gibibytes(12),
          gpuCount: 1,
          gpuMemory: Size.gibibytes(16),
        }),
      },
    ],
  ])('change nothing when they are given: %s', (_, props, options) => {
    const { compute, fifo } = props;
    const least: Partial<BatchScoringProps<Compute>> = { ...(compute && { compute }), ...(fifo && { fifo }) };
    const template = (given: Partial<BatchScoringProps<Compute>>) => templateOf(createScoring<Compute>(given)).toJSON();
    expect(template({ ...props, ...options })).toEqual(template(least));
  });

  it('are those of the host and of the Dockerfile', () => {
    const page = docPage('construct.md');
    for (const name of OF_TUNING) {
      const setting: Setting = SETTINGS[name];
      if (setting.default !== undefined)
        expect(page).toMatch(
          new RegExp(`^\\| \`${name}: number\` .* \\| ${setting.default}(, and \\d+ with a GPU)? \\|$`, 'm'),
        );
    }
    const dockerfile = readFileSync(join(REPOSITORY, 'infra', 'image', 'Dockerfile'), 'utf8');
    const bases = [...dockerfile.matchAll(/^ARG [A-Z]+_BASE=(\S+)$/gm)].map(([, base]) => base);
    expect(bases.filter((base) => !page.includes(`\`${base}\``))).toEqual([]);
  });
});

describe('docs/configuration.md', () => {
  it('has a row for each environment variable, as the catalogue has it', () => {
    for (const { variable, doc, stated, isRequired, default: fallback } of everySetting()) {
      const plain = isRequired ? 'required' : inCell(fallback);
      expect(PAGE).toContain(`\n| \`${variable}\` | ${doc} | ${stated ?? plain} |\n`);
    }
    const rows = [...PAGE.matchAll(/^\| `(BATCHSCORE_\w+)` \|/gm)].map(([, name]) => name);
    expect(rows.toSorted()).toEqual(
      everySetting()
        .map(({ variable }) => variable)
        .toSorted(),
    );
  });

  it('states the shares of memory that the host takes', () => {
    const { maxPayloadBytes, maxAnswerCharacters } = loadConfig({
      ...REQUIRED,
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769',
    });
    for (const [name, share] of Object.entries({ maxPayloadBytes, maxAnswerCharacters })) {
      const { stated } = SETTINGS[name as 'maxPayloadBytes' | 'maxAnswerCharacters'];
      expect(stated).toContain(`\`${share}\``);
    }
  });
});

function everySetting(): Setting[] {
  const all = Object.values<Setting>({ ...SETTINGS, ...JOB_SCORE_SETTINGS, ...JOB_CONTROL_SETTINGS });
  return [...new Map(all.map((setting) => [setting.variable, setting])).values()];
}

/** A default as a cell has it: numbers plain, the rest as code. */
function inCell(fallback: unknown): string {
  if (fallback === undefined) return 'none';
  return typeof fallback === 'number' ? String(fallback) : `\`${[fallback].flat().join(',')}\``;
}
