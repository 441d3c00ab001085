import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { type Common, common, cuda, refusalOf } from './common.ts';
import { startContainer } from './container.ts';
import { buildGpuImage, compileDriver, type GpuStage } from './gpuBuilds.ts';
import { configOf, copyInto, makeContainer, runInside } from './images.ts';

/** Where AWS's own images for Lambda on GPUs, and Bottlerocket below them, have the driver. */
const DRIVER_FOLDERS = [
  '/x86_64-bottlerocket-linux-gnu/sys-root/usr/lib/nvidia',
  '/x86_64-bottlerocket-linux-gnu/sys-root/usr/lib/nvidia/tesla',
  '/usr/lib/nvidia/tesla',
  '/usr/lib',
];

/** Where Bottlerocket has it. */
const FOLDERS_OF_NVIDIA_SMI = [
  '/x86_64-bottlerocket-linux-gnu/sys-root/usr/bin',
  '/x86_64-bottlerocket-linux-gnu/sys-root/usr/libexec/nvidia/tesla/bin',
];

const LIBRARIES = '/opt/lib/* node_modules/onnxruntime-node/bin/napi-v6/linux/*/*';

/** Opens a session as the handler does. All symbols must be there, not only those that come to be used. */
const LOAD_PROVIDER = `LD_BIND_NOW=1 node --input-type=module --eval "
  import { InferenceSession } from './node_modules/onnxruntime-node/dist/index.js';
  const opened = InferenceSession.create('models/digits/1/model.onnx', { executionProviders: ['cuda'] });
  console.log(await opened.then(() => 'opened', (error) => error.message));"`;

/** An image with a GPU, and the one that it is otherwise. */
interface GpuImage {
  readonly target: GpuStage;
  readonly otherwise: 'lambda' | 'worker';
  readonly base: keyof Common['bases'];
  /** Where hosts that look at the system of an image put the driver, and its loader looks by itself. */
  readonly ofSystem: readonly string[];
  /** What its host says that cannot start, with this environment. */
  refusal(tag: string, environment: Readonly<Record<string, string>>): Promise<string>;
}

const GPU_IMAGES: readonly GpuImage[] = [
  { target: 'lambda-gpu', otherwise: 'lambda', base: 'LAMBDA_BASE', ofSystem: [], refusal: refusalOf },
  {
    target: 'worker-gpu',
    otherwise: 'worker',
    base: 'WORKER_BASE',
    ofSystem: ['/usr/lib/x86_64-linux-gnu'],
    async refusal(tag, environment) {
      const { code, log } = await (await startContainer(tag, environment)).ended;
      assert.equal(code, 1);
      return log;
    },
  },
];

for (const { target, otherwise, base, ofSystem, refusal } of GPU_IMAGES) {
  describe(`the ${target} image`, () => {
    let gpu: string;
    let made: Common;
    before(async () => {
      made = await common();
      gpu = await buildGpuImage(target, made.bases[base]);
    });

    it('refuses to start where there is no GPU, and never scores on the processor instead', async () => {
      const said = await refusal(gpu, { ...made.queues.environment, BATCHSCORE_PROVIDERS: 'cuda' });

      assert.match(said, /models\/digits\/1\/model\.onnx: execution provider 'cuda' is not available/);
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

    it("looks for libraries in CUDA's folder, in those of its base and where hosts put the driver", async () => {
      const { LD_LIBRARY_PATH: ofBase = '' } = variablesOf(await configOf(made.bases[base]));

      const variables = variablesOf(await configOf(gpu));
      const { LD_LIBRARY_PATH, NVIDIA_DRIVER_CAPABILITIES, NVIDIA_VISIBLE_DEVICES } = variables;

      const foldersOfBase = ofBase.split(':').filter((folder) => folder !== '');
      assert.deepEqual(LD_LIBRARY_PATH?.split(':'), ['/opt/lib', ...foldersOfBase, ...DRIVER_FOLDERS]);
      assert.deepEqual([NVIDIA_DRIVER_CAPABILITIES, NVIDIA_VISIBLE_DEVICES], ['compute,utility', undefined]);
      assert.deepEqual([variables.HOME, variables.CUDA_CACHE_PATH], ['/tmp', '/tmp/.nv/ComputeCache']);
    });

    it('finds nvidia-smi where it is on PATH, or where Bottlerocket has it', {
      skip: otherwise === 'lambda',
    }, async () => {
      const { PATH } = variablesOf(await configOf(gpu));
      const { PATH: ofBase } = variablesOf(await configOf(made.bases[base]));

      assert.equal(PATH, [ofBase, ...FOLDERS_OF_NVIDIA_SMI].join(':'));
    });

    it(`is the ${otherwise} image otherwise`, async () => {
      assert.deepEqual({ ...(await configOf(gpu)), Env: [] }, { ...(await configOf(made[otherwise])), Env: [] });
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

      for (const folder of [...DRIVER_FOLDERS, ...ofSystem]) {
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
}

function variablesOf({ Env }: { readonly Env: readonly string[] }): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(Env.map((variable) => variable.split(/=(.*)/s)));
}
