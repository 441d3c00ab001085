import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Scenario } from './scenarios.ts';

export interface Repository {
  readonly directory: string;
  /** Writes the scenario's model and config.json. @returns the path of the model's file */
  addModel(scenario: Scenario, maxBatchRows?: number): Promise<string>;
  remove(): Promise<void>;
}

export async function createRepository(): Promise<Repository> {
  const root = await mkdtemp(join(tmpdir(), 'batchscore-bench-'));
  return {
    directory: root,
    async addModel({ name, encodeModel, modelConfig = {} }, maxBatchRows) {
      const folder = join(root, name, '1');
      await mkdir(folder, { recursive: true });
      const path = join(folder, 'model.onnx');
      await writeFile(path, encodeModel());
      await writeFile(join(root, name, 'config.json'), JSON.stringify({ ...modelConfig, maxBatchRows }));
      return path;
    },
    remove: () => rm(root, { recursive: true }),
  };
}
