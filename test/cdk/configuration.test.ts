import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Template } from 'aws-cdk-lib/assertions';
import { createStack } from '../../infra/app/batchScoringStack.ts';
import { COMPUTE_KINDS, CONTEXT_KEYS, KEYS_OF_KIND } from '../../infra/app/contextKeys.ts';
import { readContext } from '../../infra/app/readContext.ts';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { type ModelConfig, readModelConfig } from '../../lambda/onnx/modelConfig.ts';
import { REPOSITORY } from '../helpers/command.ts';
import { docPage } from '../helpers/docExamples.ts';
import { createApp } from '../helpers/stacks.ts';

const PAGE = docPage('configuration.md');
const MODELS_PAGE = docPage('models.md');

interface Row {
  readonly names: readonly string[];
  readonly defaultText: string;
}

/** The rows of the page's table that has a row for `name`. */
function tableWith(name: string, page = PAGE): Row[] {
  const table = page.split('\n\n').find((text) => text.includes(`\n| \`${name}\` |`)) ?? '';
  const rows = table.split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((row) => {
    const cells = row.slice(2, -2).split(' | ');
    return { names: codesIn(cells[0] ?? ''), defaultText: cells.at(-1) ?? '' };
  });
}

function codesIn(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}

/** The value that a cell begins with, or that a share of memory comes to; undefined when it says in words what happens without one. */
function valueIn(text: string): string | undefined {
  return /^(?:a 64th of the memory.*: )?`([^`]+)`|^(\d+)$/
    .exec(text)
    ?.slice(1)
    .find((value) => value !== undefined);
}

type Context = Record<string, string>;

/** A value for each variable that some deployment must have. */
const REQUIRED: Context = {
  BATCHSCORE_REQUEST_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests',
  BATCHSCORE_RESULT_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/results',
  BATCHSCORE_RESULT_TABLE: 'results-table',
  BATCHSCORE_RESULT_BUCKET: 'results-bucket',
};

describe('the table of environment variables', () => {
  const rows = tableWith('BATCHSCORE_MODELS_DIR');
  const required = rows.filter(({ defaultText }) => defaultText.startsWith('required'));

  it('has every variable, and none that there is not', () => {
    expect(rows.flatMap(({ names }) => names).toSorted()).toEqual(Object.values<string>(CONFIG_KEYS).toSorted());
  });

  it('states the defaults', () => {
    const config: Readonly<Record<string, unknown>> = loadConfig({
      ...REQUIRED,
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769',
    });
    const optional = rows.filter((row) => !required.includes(row));
    const stated = optional.flatMap(({ names, defaultText }) => names.map((name) => [name, valueIn(defaultText)]));
    const actual = Object.entries(CONFIG_KEYS).map(([key, name]) => [name, config[key]?.toString()]);
    const ofOptional = actual.filter(([name = '']) => !(name in REQUIRED));
    expect(Object.fromEntries(stated)).toEqual(Object.fromEntries(ofOptional));
  });

  it('says which are required, and for which store', () => {
    expect(required.flatMap(({ names }) => names).toSorted()).toEqual(Object.keys(REQUIRED).toSorted());
    for (const { names, defaultText } of required) {
      const [store = 'queue'] = codesIn(defaultText);
      const others = { ...REQUIRED, BATCHSCORE_RESULTS: store };
      for (const name of names) expect(() => loadConfig({ ...others, [name]: undefined })).toThrow(`${name}: `);
    }
  });
});

describe('the table of context keys', () => {
  const rows = tableWith('stackName');

  it('has every key, and none that there is not', () => {
    expect(rows.flatMap(({ names }) => names).toSorted()).toEqual(CONTEXT_KEYS.toSorted());
  });

  it.each([
    ['a standard queue', undefined, {}],
    ['a FIFO queue', 'FIFO', { fifo: 'true' }],
    ['a GPU', 'GPU', { compute: 'lambda-gpu' }],
    ['Fargate', 'ECS', { compute: 'ecs' }],
    ['GPUs on ECS', 'ECS-GPU', { compute: 'ecs-gpu' }],
  ])('states the defaults for %s: to give them all changes nothing', (_, variant, context: Context) => {
    // Of these the stack says nothing: the function has the default, or the Dockerfile.
    const { maxBatchRows, checkPercent, baseImage, pythonImage, ...ofStack } = statedDefaults(rows, variant);
    const stated: Context = { ...ofStack, ...context };
    const { compute = 'lambda' } = stated;
    const ofOtherKinds = COMPUTE_KINDS.filter((kind) => kind !== compute).flatMap((kind) => KEYS_OF_KIND[kind]);
    const ofThisKind: readonly string[] = KEYS_OF_KIND[compute as keyof typeof KEYS_OF_KIND];
    for (const key of ofOtherKinds) if (!ofThisKind.includes(key)) delete stated[key];

    expect(Object.keys(stated).length).toBeGreaterThan(10);
    expect(templateOf(stated)).toEqual(templateOf(context));
    const config = loadConfig(REQUIRED);
    expect([maxBatchRows, checkPercent]).toEqual([String(config.maxBatchRows), String(config.checkPercent)]);
    const dockerfile = readFileSync(join(REPOSITORY, 'infra', 'image', 'Dockerfile'), 'utf8');
    const bases = new Map(
      [...dockerfile.matchAll(/^ARG ([A-Z]+_BASE)=(\S+)$/gm)].map(([, name, base]) => [name, base]),
    );
    expect([baseImage, pythonImage]).toEqual([bases.get('LAMBDA_BASE'), bases.get('PYTHON_BASE')]);
    expect(PAGE).toContain(`; of a worker \`${bases.get('WORKER_BASE')}\` |`);
  });
});

describe("the table of a model's config.json", () => {
  // The compiler refuses a key that is missing here, or too many.
  const keys: Record<keyof ModelConfig, true> = {
    maxBatchRows: true,
    ladder: true,
    ragged: true,
    batchAxis: true,
    outputs: true,
    constants: true,
    batching: true,
    providers: true,
    devices: true,
    sessionOptions: true,
    warmup: true,
    transform: true,
  };

  it('has every key, and none that there is not', () => {
    const documented = tableWith('ragged', MODELS_PAGE).flatMap(({ names }) => names);
    expect(documented.toSorted()).toEqual(Object.keys(keys).toSorted());
  });

  it('is followed by examples that are accepted', async () => {
    const examples = [...MODELS_PAGE.matchAll(/^```json config\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text);
    expect(examples.length).toBeGreaterThanOrEqual(3);
    const folder = await mkdtemp(join(tmpdir(), 'batchscore-config-'));
    try {
      for (const example of examples) {
        await writeFile(join(folder, 'config.json'), example);
        expect(readModelConfig(folder)).toEqual(JSON.parse(example));
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

/** What the cells begin with, or what they have for `variant` after a semicolon; a key stands for its own default. */
function statedDefaults(rows: readonly Row[], variant: string | undefined): Context {
  const stated: Context = {};
  for (const { names, defaultText } of rows) {
    const [general = '', ...special] = defaultText.split('; ');
    const own = special.find((text) => text.startsWith(`${variant} `))?.slice(`${variant} `.length);
    const value = valueIn(own ?? general);
    if (value !== undefined) for (const name of names) stated[name] = value;
  }
  return Object.fromEntries(Object.entries(stated).map(([name, value]) => [name, stated[value] ?? value]));
}

function templateOf(context: Context): unknown {
  return Template.fromStack(createStack(createApp(), readContext(context))).toJSON();
}
