import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from '@jest/globals';
import { REPOSITORY } from '../../helpers/command.ts';

const run = promisify(execFile);

/** What a block takes for granted, by page. */
const GIVEN: Readonly<Record<string, string>> = {
  'docs/client.md': '',
  'docs/construct.md': '',
  'docs/jobs.md': 'declare const jobStateMachine: string;\ndeclare const jobBucket: string;\n',
  'docs/operations.md':
    "import { BatchScoring, lambdaGpuCompute } from 'batchscore/infra';\ndeclare const stack: import('aws-cdk-lib').Stack;\n",
};

describe('the TypeScript in the documentation', () => {
  const folder = mkdtempSync(join(REPOSITORY, 'test', 'system', 'snippets-'));
  afterAll(() => rm(folder, { recursive: true }));

  it('compiles as it stands', async () => {
    let blocks = 0;
    for (const [page, given] of Object.entries(GIVEN)) {
      const text = readFileSync(join(REPOSITORY, page), 'utf8');
      for (const [, code = ''] of text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)) {
        blocks += 1;
        await writeFile(join(folder, `block${blocks}.ts`), `${code}\n${given}export {};\n`);
      }
    }
    expect(blocks).toBeGreaterThanOrEqual(5);
    const config = {
      extends: join(REPOSITORY, 'tsconfig.json'),
      compilerOptions: {
        noEmit: true,
        rootDir: REPOSITORY,
        paths: {
          batchscore: [join(REPOSITORY, 'client', 'index.ts')],
          'batchscore/consumer': [join(REPOSITORY, 'client', 'consumer.ts')],
        },
      },
      include: ['*.ts'],
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
    const tsc = join(REPOSITORY, 'node_modules', 'typescript', 'bin', 'tsc');
    const { stdout } = await run(process.execPath, [tsc, '-p', folder]).catch((error) => error);
    expect(stdout).toBe('');
  });
});
