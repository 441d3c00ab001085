import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { Model, TensorSpec } from '../../../lambda/core/model.ts';
import { elementCount, type Tensor } from '../../../lambda/core/tensor.ts';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import { loadTokenizer } from '../../../lambda/onnx/loadTokenizer.ts';
import { readModelConfig } from '../../../lambda/onnx/modelConfig.ts';
import { docPage, REPOSITORY } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import {
  enoughTime,
  inMemoryModel,
  memoryWriter,
  repositoryOf,
  scoringDependencies,
  spec,
  standardRecord,
} from '../../helpers/scoring.ts';
import { blocksOf } from '../../system/recipes/blocks.ts';
import { stepsOf } from '../../system/recipes/script.ts';

const PAGE = docPage('recipes.md');
const BLOCKS = blocksOf(PAGE);

const [ROWS, FLOWER, LABEL] = ['batch', spec('features', 'FP32', 'batch', 4), spec('label', 'INT64', 'batch')];
const SCORES = [spec('scores', 'FP32', ROWS, 3)];
const CLASSES = [LABEL, spec('probabilities', 'FP32', ROWS, 3)];
const CELLS = ['age', 'annual_income', 'visits', 'is_member'].map((name) => spec(name, 'FP32', ROWS, 1));
const WORDS = ['country', 'plan'].map((name) => spec(name, 'BYTES', ROWS, 1));
const TOKENS = ['input_ids', 'attention_mask'].map((name) => spec(name, 'INT64', ROWS, 'sequence'));

const TOKENIZER_FILE = join(REPOSITORY, 'test/helpers/tokenizers/wordpiece.json');
const TOKENIZER = await loadTokenizer(TOKENIZER_FILE, { file: 'wordpiece.json' }, TOKENS);

/** What the page's exporters make of the models, with scores of their own: zeros. */
const MODELS = repositoryOf(
  standIn('iris', [FLOWER], CLASSES),
  standIn('iris-torch', [FLOWER], SCORES),
  standIn('iris-xgboost', [FLOWER], CLASSES),
  standIn('iris-catboost', [FLOWER], CLASSES),
  standIn('churn', [...CELLS, ...WORDS], [LABEL, spec('probabilities', 'FP32', ROWS, 2)]),
  { ...standIn('bert', TOKENS, [spec('logits', 'FP32', ROWS, 2)]), transform: TOKENIZER.transform },
);

describe('docs/recipes.md', () => {
  const inFolder = useFolder();

  const requests = BLOCKS.filter(({ name }) => name.endsWith('.jsonl'));
  it.each(requests)('has in $name what is scored, and answered as it says', async ({ name, text }) => {
    const lines = text.trim().split('\n');
    const scored = await Promise.all(lines.map(async (line, index) => answerTo(line, String(index + 1))));
    const command = stepsOf(BLOCKS).find(({ block }) => block.language === 'sh' && block.text.includes(` ${name}\n`));
    const printed = command?.printed?.split('\n').filter((line) => line.startsWith('{')) ?? [];
    expect(scored.map(outlineOf)).toEqual(printed.map((line) => outlineOf(JSON.parse(withoutDots(line)))));
  });

  it('has exporters that end by comparing the file with the original', () => {
    const files = globSync(join(REPOSITORY, 'examples/python/*.py'));
    const scripts = [
      ...BLOCKS,
      ...files.map((path) => ({ name: basename(path), text: readFileSync(path, 'utf8') })),
    ].filter(({ text }) => /(= convert|onnx\.export|convert_xgboost|save_model)\(/.test(text));
    expect(scripts.map(({ name }) => name).toSorted()).toEqual([
      'bert.py',
      'catboost_iris.py',
      'export.py',
      'export_table.py',
      'torch_iris.py',
      'xgboost_iris.py',
    ]);
    expect(scripts.filter(({ text }) => !/^compare\(/m.test(text))).toEqual([]);
  });

  it('has in its command lines bodies that are scored', async () => {
    const bodies = [...PAGE.matchAll(/--message-body '([^']+)'/g)].map(([, body = '']) => body);
    expect(bodies.length).toBeGreaterThan(0);
    for (const body of bodies) expect(await answerTo(body, 'm-1')).toHaveProperty('predictions');
  });

  it.each(BLOCKS.filter(({ name }) => basename(name) === 'config.json'))('has a $name that is read', ({ text }) => {
    writeFileSync(inFolder('config.json'), text);
    expect(readModelConfig(inFolder())).toEqual(JSON.parse(text));
  });
});

function standIn(name: string, inputs: readonly TensorSpec[], outputs: readonly TensorSpec[]): Model {
  const zeros = ([first]: readonly Tensor[]): Tensor[] =>
    outputs.map(({ name, datatype, shape }) => {
      const dims = shape.map((dim) => (typeof dim === 'number' ? dim : (first?.shape[0] ?? 0)));
      const count = elementCount(dims);
      return {
        name,
        datatype,
        shape: dims,
        data: datatype === 'INT64' ? new BigInt64Array(count) : new Float32Array(count),
      };
    });
  return inMemoryModel({ inputs, outputs }, zeros, { name });
}

async function answerTo(body: string, messageId: string): Promise<unknown> {
  const writer = memoryWriter();
  const deps = scoringDependencies({ models: MODELS, writer });
  await scoreRecords([standardRecord(body, { messageId })], deps, enoughTime());
  return writer.documentsOf(messageId)[0];
}

/** What of an answer does not depend on the scores: its keys, those of its predictions, and the shapes of its outputs. */
function outlineOf(document: unknown): unknown {
  const { predictions, outputs, ...others } = document as Record<string, readonly Record<string, unknown>[]>;
  return {
    ...others,
    predictions: predictions?.map((one) => Object.keys(Array.isArray(one) ? {} : one)),
    outputs: outputs?.map(({ data, ...one }) => one),
  };
}

function withoutDots(line: string): string {
  return line.replaceAll('[…]', '[]').replaceAll('…', '0');
}
