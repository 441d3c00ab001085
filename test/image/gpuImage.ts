import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { pythonBase } from './bases.ts';
import { run } from './command.ts';
import { build, common, cuda, refusalOf, stage } from './common.ts';
import { configOf, copyInto, makeContainer, megabytesOf, runInside } from './images.ts';
import { temporaryFolder } from './ownNames.ts';
import type { ImageQueues } from './queues.ts';

/** Where AWS's own images for Lambda on GPUs, and Bottlerocket below them, have the driver. */
const DRIVER_FOLDERS = [
  '/x86_64-bottlerocket-linux-gnu/sys-root/usr/lib/nvidia',
  '/x86_64-bottlerocket-linux-gnu/sys-root/usr/lib/nvidia/tesla',
  '/usr/lib/nvidia/tesla',
  '/usr/lib',
];

const LIBRARIES = '/opt/lib/* node_modules/onnxruntime-node/bin/napi-v6/linux/*/*';

/** Opens a session as the handler does. All symbols must be there, not only those that come to be used. */
const LOAD_PROVIDER = `LD_BIND_NOW=1 node --input-type=module --eval "
  import { InferenceSession } from '/var/task/node_modules/onnxruntime-node/dist/index.js';
  const opened = InferenceSession.create('models/digits/1/model.onnx', { executionProviders: ['cuda'] });
  console.log(await opened.then(() => 'opened', (error) => error.message));"`;

describe('the lambda-gpu image', () => {
  let gpu: string;
  let lambda: string;
  let queues: ImageQueues;
  before(async () => {
    ({ lambda, queues } = await common());
    gpu = await (cuda ? buildWithCuda() : buildWithoutCuda());
  });

  it('refuses to start where there is no GPU, and never scores on the processor instead', async () => {
    const said = await refusalOf(gpu, { ...queues.environment, BATCHSCORE_PROVIDERS: 'cuda' });

    assert.match(said, /^models\/digits\/1\/model\.onnx: execution provider 'cuda' is not available/);
    assert.match(
      said,
      /libonnxruntime_providers_cuda\.so must lie beside the binding of onnxruntime-node, CUDA and cuDNN/,
    );
  });

  it("finds every library that CUDA needs but the driver, which is the host's", async () => {
    const container = await makeContainer(gpu);

    const linked = await runInside(container, `for file in ${LIBRARIES}; do ldd $file 2>/dev/null || true; done`);

    const missing = new Set(linked.split('\n').flatMap((line) => /(\S+) => not found/.exec(line)?.[1] ?? []));
    assert.deepEqual([...missing], cuda ? ['libcuda.so.1'] : []);
  });

  it("looks for libraries in CUDA's folder, in Lambda's own and where hosts put the driver", async () => {
    const { base } = await common();
    const { LD_LIBRARY_PATH: ofBase } = variablesOf(await configOf(base));

    const { LD_LIBRARY_PATH, NVIDIA_DRIVER_CAPABILITIES, NVIDIA_VISIBLE_DEVICES } = variablesOf(await configOf(gpu));

    assert.deepEqual(LD_LIBRARY_PATH?.split(':'), ['/opt/lib', ...(ofBase?.split(':') ?? []), ...DRIVER_FOLDERS]);
    assert.deepEqual([NVIDIA_DRIVER_CAPABILITIES, NVIDIA_VISIBLE_DEVICES], ['compute,utility', undefined]);
  });

  it('writes to /tmp alone, compiled kernels too', async () => {
    const { HOME, CUDA_CACHE_PATH } = variablesOf(await configOf(gpu));

    assert.deepEqual([HOME, CUDA_CACHE_PATH], ['/tmp', '/tmp/.nv/ComputeCache']);
  });

  it('is the lambda image otherwise', async () => {
    assert.deepEqual({ ...(await configOf(gpu)), Env: [] }, { ...(await configOf(lambda)), Env: [] });
  });

  describe('with CUDA', { skip: !cuda }, () => {
    let driver: string;
    before(async () => {
      driver = await compileDriver();
    });

    it("holds ONNX Runtime's part for CUDA of ONNX Runtime's own version", async () => {
      const container = await makeContainer(gpu);
      const runtime = 'node_modules/onnxruntime-node';

      const version = await runInside(container, `node -p "require('./${runtime}/package.json').version"`);
      const named = await runInside(
        container,
        `grep -aoF '${version}' ${runtime}/bin/napi-v6/linux/*/*_cuda.so || true`,
      );

      assert.equal(named, version);
    });

    for (const folder of DRIVER_FOLDERS) {
      it(`loads ONNX Runtime's part for CUDA with the driver in ${folder}`, async () => {
        const container = await makeContainer(gpu);
        await copyInto(container, driver, `${folder}/libcuda.so.1`);

        const said = await runInside(container, LOAD_PROVIDER);

        assert.match(said, /CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version/);
      });
    }

    it('has every symbol that one library needs of another', async () => {
      const container = await makeContainer(gpu);
      await copyInto(container, driver, `${DRIVER_FOLDERS[0]}/libcuda.so.1`);

      const linked = await runInside(container, 'for file in /opt/lib/*; do ldd -r $file 2>&1 || true; done');

      assert.deepEqual(
        linked.split('\n').filter((line) => /not found|undefined symbol/.test(line)),
        [],
      );
    });
  });
});

async function buildWithCuda(): Promise<string> {
  const { base } = await common();
  const tag = await build('lambda-gpu', base, stage({ accelerator: 'gpu' }), {
    args: { PYTHON_BASE: await pythonBase() },
  });
  console.log(`lambda-gpu: ${await megabytesOf(tag)} MB unpacked, with CUDA`);
  console.log('*** lambda-gpu: NOT RUN ON A GPU, which a build machine does not have. ***');
  return tag;
}

async function buildWithoutCuda(): Promise<string> {
  console.log('*** lambda-gpu: BUILT WITHOUT CUDA, 1.2 GB from PyPI; npm run test:image -- --cuda builds it with. ***');
  console.log('*** lambda-gpu: NOT RUN ON A GPU, which a build machine does not have.                           ***');
  const { base } = await common();
  const noCuda = temporaryFolder();
  for (const folder of ['cuda/lib', 'cuda/providers']) mkdirSync(join(noCuda, folder), { recursive: true });
  return build('lambda-gpu', base, stage(), { stages: { cuda: noCuda } });
}

function variablesOf({ Env }: { readonly Env: readonly string[] }): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(Env.map((variable) => variable.split(/=(.*)/s)));
}

/** A library that loads as the driver does. @returns its path */
async function compileDriver(): Promise<string> {
  const source = fileURLToPath(new URL('./libcuda.c', import.meta.url));
  const driver = join(temporaryFolder(), 'libcuda.so.1');
  await run('gcc', ['-shared', '-fPIC', '-nostdlib', '-Wl,-soname,libcuda.so.1', '-o', driver, source]);
  return driver;
}
