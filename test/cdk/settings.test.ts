import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Duration, Size } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import fc from 'fast-check';
import { CONTEXT, type ContextKey, readContext } from '../../infra/context.ts';
import { type BatchScoringProps, type Compute, ecsCompute } from '../../infra/index.ts';
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
import { refusalOf, stackOf } from '../helpers/stacks.ts';

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

describe('the app', () => {
  const DEFAULTS = { stackName: 'Batchscore', compute: 'lambda', models: 'models', encryption: 'service' };

  it('takes the same as text of the command line and as values of cdk.json', () => {
    const values = { batchSize: 500, windowSeconds: 0, fifo: false, results: ['queue', 'table'], retainData: true };
    const texts = { batchSize: '500', windowSeconds: '0', fifo: 'false', results: 'queue, table', retainData: 'true' };
    expect(readContext(texts)).toEqual(readContext(values));
    expect(readContext(values)).toEqual({ ...DEFAULTS, ...values });
  });

  it('leaves alone what the command and the library keep there', () => {
    const ofCdk = {
      '@aws-cdk/core:checkSecretUsage': true,
      'aws:cdk:bundling-stacks': ['**'],
      'availability-zones:account=123456789012:region=eu-central-1': ['eu-central-1a'],
      'cli-telemetry': false,
      'acknowledged-issue-numbers': [34_892],
    };
    expect(readContext(ofCdk)).toEqual(DEFAULTS);
  });

  it.each([
    [{ batchsize: 5 }, 'got an unknown one; did you mean batchSize, a whole number from 1 to 10000?'],
    [{ colour: 'red' }, 'colour: expected a context key of this app, got an unknown one; docs/configuration.md lists'],
    [
      { memoryMb: 'much' },
      'memoryMb: expected a number from 0, got "much"; change it in cdk.json or with -c memoryMb=…',
    ],
    [
      { fifo: 'yes', batchsize: 1 },
      'fifo: expected true or false, got "yes"; change it in cdk.json or with -c fifo=…; ba',
    ],
    [{ compute: 'batch' }, 'compute: expected one of lambda, lambda-gpu, ecs, ecs-gpu, got "batch"'],
    [
      { gpuMemoryGiB: 16 },
      'gpuMemoryGiB: expected only with compute=lambda-gpu or ecs-gpu, got it with compute=lambda',
    ],
    [{ stackName: 'my stack' }, 'stackName: expected a letter followed by letters, digits and hyphens'],
    [{ alarmTopicArn: 'arn:aws:sqs:eu-central-1:1:x' }, 'alarmTopicArn: expected the ARN of an SNS topic'],
    [{ formerKeyArn: 'alias/key' }, 'formerKeyArn: expected the ARN of a KMS key, arn:aws:kms:REGION:ACCOUNT:key/ID'],
    [
      { canaryMinutes: 10 },
      'canaryMinutes: expected only with canaryPercent, got 10 without it; give both, or leave it',
    ],
    [{ jobsPartMb: 32 }, 'jobsPartMb: expected only with jobs=true, got 32 without it; give both, or leave it out'],
  ])('refuses %j', (context, said) => {
    expect(sentenceOf(() => readContext(context))).toContain(said);
  });

  it('refuses every number out of the range of its key, naming key, range and what came', () => {
    for (const [key, kind] of Object.entries<ContextKey>(CONTEXT)) {
      const setting = Object.entries<Setting>(SETTINGS).find(([name]) => name === key)?.[1] ?? kind;
      if (!isRanged(setting) || kind.expected !== setting.expected) continue;
      fc.assert(
        fc.property(outOf(setting), (text) => {
          const said = `${key}: expected ${setting.expected}, got ${JSON.stringify(text)}; change it in cdk.json or with -c ${key}=…`;
          expect(sentenceOf(() => readContext({ [key]: text }))).toBe(said);
        }),
        { numRuns: 12 },
      );
    }
  });
});

/** The props that a setting of the host is given by, where it is one of the construct. */
const PROPS: Readonly<Record<string, (value: number) => Partial<BatchScoringProps<Compute>>>> = {
  batchSize: (batchSize) => ({ batchSize }),
  resultsPerMessage: (resultsPerMessage) => ({ resultsPerMessage }),
  resultMessageBytes: (bytes) => ({ resultsPerMessage: 'fill', resultMessageSize: Size.bytes(Math.max(0, bytes)) }),
  resultTtlSeconds: (seconds) => ({ results: ['table'], resultTtl: Duration.seconds(Math.max(0, seconds)) }),
  maxPolls: (maxPolls) => ({ compute: ecsCompute({ maxPolls }) }),
  pipelineDepth: (pipelineDepth) => ({ compute: ecsCompute({ pipelineDepth }) }),
};
/** Those whose prop has another name. */
const OTHERS: Readonly<Record<string, string>> = {
  resultMessageBytes: 'resultMessageSize.toBytes()',
  resultTtlSeconds: 'resultTtl.toSeconds()',
};
const OF_TUNING = [
  'maxBatchRows',
  'maxBatchElements',
  'maxRequestRows',
  'maxRequestsPerMessage',
  'maxAnswerCharacters',
  'checkPercent',
] as const;

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
        expect(said).toContain(` ${OTHERS[name] ?? name}: expected a whole number from ${min} to ${max}`);
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

  const rows = contextRows();

  it('has a row for each context key, and none that there is not', () => {
    expect(rows.flatMap(({ names }) => names).toSorted()).toEqual(Object.keys(CONTEXT).toSorted());
  });

  it.each([
    ['a standard queue', undefined, {}],
    ['a FIFO queue', 'FIFO', { fifo: 'true' }],
    ['a GPU', 'GPU', { compute: 'lambda-gpu' }],
    ['Fargate', 'ECS', { compute: 'ecs' }],
    ['GPUs on ECS', 'ECS-GPU', { compute: 'ecs-gpu' }],
  ])(
    'states the defaults for %s: to give them all changes nothing',
    (_, variant, context: Readonly<Record<string, string>>) => {
      // Of these the stack says nothing: the function has the default, or the Dockerfile.
      const { maxBatchRows, checkPercent, baseImage, pythonImage, ...ofStack } = statedDefaults(rows, variant);
      const kind = context.compute ?? 'lambda';
      const ofThisKind = Object.entries<ContextKey>(CONTEXT).flatMap(([key, { kinds }]) =>
        kinds === undefined || kinds.some((one) => one === kind) ? [key] : [],
      );
      const stated = Object.fromEntries(Object.entries(ofStack).filter(([key]) => ofThisKind.includes(key)));
      expect(Object.keys(stated).length).toBeGreaterThan(10);
      const template = (given: Readonly<Record<string, string>>) => Template.fromStack(stackOf(given)).toJSON();
      expect(template({ ...stated, ...context })).toEqual(template(context));
      const { maxBatchRows: rowsOfHost, checkPercent: percentOfHost } = loadConfig(REQUIRED);
      expect([maxBatchRows, checkPercent]).toEqual([String(rowsOfHost), String(percentOfHost)]);
      const dockerfile = readFileSync(join(REPOSITORY, 'infra', 'image', 'Dockerfile'), 'utf8');
      const bases = new Map(
        [...dockerfile.matchAll(/^ARG ([A-Z]+_BASE)=(\S+)$/gm)].map(([, name, base]) => [name, base]),
      );
      expect([baseImage, pythonImage]).toEqual([bases.get('LAMBDA_BASE'), bases.get('PYTHON_BASE')]);
      expect(PAGE).toContain(`; of a worker \`${bases.get('WORKER_BASE')}\` |`);
    },
  );
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

interface Row {
  readonly names: readonly string[];
  readonly defaultText: string;
}

function contextRows(): Row[] {
  const table = PAGE.split('\n\n').find((text) => text.includes('\n| `stackName` |')) ?? '';
  const rows = table.split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((row) => {
    const cells = row.slice(2, -2).split(' | ');
    const names = [...(cells[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
    return { names, defaultText: cells.at(-1) ?? '' };
  });
}

/** The value that a cell begins with; undefined when it says in words what happens without one. */
function valueIn(text: string): string | undefined {
  const found = /^`([^`]+)`|^(\d+)$/.exec(text) ?? [];
  return found.slice(1).find((value) => value !== undefined);
}

/** What the cells begin with, or what they have for `variant` after a semicolon; a key stands for its own default. */
function statedDefaults(rows: readonly Row[], variant: string | undefined): Record<string, string> {
  const stated: Record<string, string> = {};
  for (const { names, defaultText } of rows) {
    const [general = '', ...special] = defaultText.split('; ');
    const own = special.find((text) => text.startsWith(`${variant} `))?.slice(`${variant} `.length);
    const value = valueIn(own ?? general);
    if (value !== undefined) for (const name of names) stated[name] = value;
  }
  return Object.fromEntries(Object.entries(stated).map(([name, value]) => [name, stated[value] ?? value]));
}
