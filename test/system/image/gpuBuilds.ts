import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pythonBase } from './bases.ts';
import { run, secondsOf } from './command.ts';
import { build, cuda, stage, tellSize } from './common.ts';
import { buildImage, removeImageAtExit } from './images.ts';
import { ownTag, temporaryFolder } from './ownNames.ts';

export type GpuStage = 'lambda-gpu' | 'worker-gpu';

/** With CUDA where that is asked for, else without. @returns the image's tag */
export async function buildGpuImage(target: GpuStage, base: string): Promise<string> {
  console.log(`*** ${target}: NOT RUN ON A GPU, which a build machine does not have. ***`);
  return cuda ? buildWithCuda(target, base) : buildWithoutCuda(target, base);
}

async function buildWithCuda(target: GpuStage, base: string): Promise<string> {
  const context = stage(target);
  cudaStage ??= buildCuda(context);
  const tag = await build(target, base, context, { stages: { cuda: `container-image://${await cudaStage}` } });
  await tellSize(target, tag, base);
  return tag;
}

let cudaStage: Promise<string> | undefined;

/** The stage with CUDA, which both images copy from: 1.2 GB are downloaded once. @returns its tag */
async function buildCuda(context: string): Promise<string> {
  const tag = ownTag('cuda');
  removeImageAtExit(tag);
  const seconds = await secondsOf(async () => {
    await buildImage({ context, tag, target: 'cuda', args: { PYTHON_BASE: await pythonBase() } });
  });
  console.log(`cuda: built in ${seconds} s`);
  return tag;
}

async function buildWithoutCuda(target: GpuStage, base: string): Promise<string> {
  console.log(`*** ${target}: BUILT WITHOUT CUDA, 1.2 GB from PyPI; npm run test:image -- --cuda builds it with. ***`);
  const noCuda = temporaryFolder();
  for (const folder of ['cuda/lib', 'cuda/providers', 'cuda/licenses'])
    mkdirSync(join(noCuda, folder), { recursive: true });
  return build(target, base, stage(target), { stages: { cuda: noCuda } });
}

/** A library that loads as the driver does. @returns its path */
export async function compileDriver(): Promise<string> {
  const source = fileURLToPath(new URL('./libcuda.c', import.meta.url));
  const driver = join(temporaryFolder(), 'libcuda.so.1');
  await run('gcc', ['-shared', '-fPIC', '-nostdlib', '-Wl,-soname,libcuda.so.1', '-o', driver, source]);
  return driver;
}
