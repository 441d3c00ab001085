import { mkdtempSync } from 'node:fs';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterThisTest } from './openModels.ts';

/** The environment in which `nvidia-smi` is this shell script, until the test is over. */
export async function nvidiaSmi(script: string): Promise<{ PATH: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-nvidia-smi-'));
  afterThisTest(() => rm(folder, { recursive: true }));
  const file = join(folder, 'nvidia-smi');
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
  return { PATH: `${folder}:/usr/bin:/bin` };
}
