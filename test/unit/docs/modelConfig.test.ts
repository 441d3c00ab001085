import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type ModelConfig, readModelConfig } from '../../../lambda/onnx/modelConfig.ts';
import { docPage } from '../../helpers/command.ts';

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
    transform: true,
  };

  it('has every key, and none that there is not', () => {
    const documented = keysOf('ragged');
    expect(documented.toSorted()).toEqual(Object.keys(keys).toSorted());
  });

  it('is followed by examples that are accepted', async () => {
    const examples = [...PAGE.matchAll(/^```json config\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text);
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

/** The keys of the page's table that has a row for `name`. */
function keysOf(name: string): string[] {
  const table = PAGE.split('\n\n').find((text) => text.includes(`\n| \`${name}\` |`)) ?? '';
  const rows = table.split('\n').filter((line) => line.startsWith('| `'));
  return rows.flatMap((row) => [...(row.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, key = '']) => key));
}
