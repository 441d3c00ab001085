import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Scenario } from './scenarios.ts';

export interface Repository {
  readonly directory: string;
  /** Writes the scenario's model. @returns the path of its file */
  addModel(scenario: Scenario): Promise<string>;
  /** Writes the scenario's config.json with the entries of `more`. @param maxBatchRows row limit. @default no entry */
  configure(
    scenario: Scenario,
    maxBatchRows: number | undefined,
    more?: Readonly<Record<string, unknown>>,
  ): Promise<void>;
  remove(): Promise<void>;
}

export async function createRepository(): Promise<Repository> {
  const root = await mkdtemp(join(tmpdir(), 'batchscore-bench-'));
  return {
    directory: root,
    async addModel({ name, encodeModel }) {
      const folder = join(root, name, '1');
      await mkdir(folder, { recursive: true });
      const path = join(folder, 'model.onnx');
      await writeFile(path, encodeModel());
      return path;
    },
    async configure({ name, modelConfig = {} }, maxBatchRows, more) {
      await writeFile(join(root, name, 'config.json'), JSON.stringify({ ...modelConfig, maxBatchRows, ...more }));
    },
    remove: () => rm(root, { recursive: true }),
  };
}
