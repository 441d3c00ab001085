import { writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { type ModelConfig, readModelConfig } from '../../../lambda/onnx/modelConfig.ts';
import { docPage } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';

const inFolder = useFolder();
const PAGE = docPage('models.md');

describe("the table of a model's config.json", () => {
  // The compiler refuses a key that is missing here, or too many.
  const keys: Record<keyof ModelConfig, true> = {
    maxBatchRows: true,
    allowedSizes: true,
    ragged: true,
    batchAxis: true,
    outputs: true,
    constants: true,
    batching: true,
    providers: true,
    devices: true,
    sessionOptions: true,
    warmup: true,
    tokenizer: true,
    transform: true,
  };

  it('has every key, and none that there is not', () => {
    const documented = keysOf('ragged');
    expect(documented.toSorted()).toEqual(Object.keys(keys).toSorted());
  });

  it('is followed by examples that are accepted', () => {
    const examples = [...`${PAGE}${docPage('gpu.md')}`.matchAll(/^```json config\n([\s\S]*?)^```$/gm)].map(
      ([, text = '']) => text,
    );
    expect(examples.length).toBeGreaterThanOrEqual(3);
    for (const example of examples) {
      writeFileSync(inFolder('config.json'), example);
      expect(readModelConfig(inFolder())).toEqual(JSON.parse(example));
    }
  });
});

/** The keys of the page's table that has a row for `name`. */
function keysOf(name: string): string[] {
  const table = PAGE.split('\n\n').find((text) => text.includes(`\n| \`${name}\` |`)) ?? '';
  const rows = table.split('\n').filter((line) => line.startsWith('| `'));
  return rows.flatMap((row) => [...(row.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, key = '']) => key));
}
