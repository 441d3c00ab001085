/**
 * Builds the images and runs them as Lambda does: `npm run test:image`. With `-- --cuda`, the GPU's image with the real
 * CUDA libraries, 1.5 GB from PyPI.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { cpSync, mkdirSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type ImageOptions, stageImage } from '../../infra/image/stageImage.ts';
import { emptyBase, lambdaBase, pythonBase } from './bases.ts';
import { secondsOf, temporaryFolder } from './command.ts';
import { installHostPackages } from './hostPackages.ts';
import {
  architectureOf,
  type Build,
  buildImage,
  configOf,
  makeContainer,
  megabytesOf,
  removeImageAtExit,
  runInside,
} from './images.ts';
import { imageMessages } from './messages.ts';
import { type ImageQueues, startImageQueues } from './queues.ts';
import { type ScoringFunction, startFunction } from './scoringFunction.ts';

const { cuda: withCuda } = parseArgs({ options: { cuda: { type: 'boolean', default: false } } }).values;

const MODELS = fileURLToPath(new URL('../../models', import.meta.url));
const ARCHITECTURE = process.arch === 'arm64' ? 'arm64' : 'x86_64';

/** Lambda ends an environment that takes longer to start. */
const LONGEST_INIT_MS = 10_000;

/** What Amazon Linux 2023 has, on which Lambda runs Node 24. The base of this test is newer. */
const NEWEST_SYMBOLS: Readonly<Record<string, number>> = { 'GLIBC_2.': 34, 'GLIBCXX_3.4.': 29 };

let base: string;
let lambda: string;
let queues: ImageQueues;

before(async () => {
  await installHostPackages();
  const seconds = await secondsOf(async () => {
    base = await lambdaBase();
  });
  console.log(`base: ready after ${seconds} s`);
  lambda = await build('lambda', stage());
  const [whole, bare] = await Promise.all([megabytesOf(lambda), megabytesOf(base)]);
  console.log(`lambda: ${whole} MB unpacked, ${whole - bare} MB of them on top of its base`);
  queues = await startImageQueues();
});
after(() => queues?.stop());

/** The folder that an image of this machine's processor is built from. */
function stage(options: Partial<ImageOptions> = {}): string {
  return stageImage({ modelsDirectory: MODELS, architecture: ARCHITECTURE, ...options });
}

/** Builds a target of the Dockerfile. @returns the image's tag */
async function build(target: string, context: string, more: Partial<Build> = {}): Promise<string> {
  const tag = `localhost/batchscore-test-${target}:${randomUUID()}`;
  const args = { LAMBDA_BASE: base, ...more.args };
  removeImageAtExit(tag);
  const seconds = await secondsOf(() => buildImage({ ...more, context, tag, target, args }));
  console.log(`${target}: built in ${seconds} s`);
  return tag;
}

/** What a function says that cannot start. */
async function refusalOf(tag: string, environment: Readonly<Record<string, string>>): Promise<string> {
  const refusing = await startFunction(tag, environment);
  await refusing.stop();
  assert.ok('initError' in refusing.start, 'expected the function to refuse to start, got one that is ready');
  return refusing.start.initError.errorMessage;
}

describe('the lambda image', () => {
  let container: string;
  before(async () => {
    container = await makeContainer(lambda);
  });

  it('starts the handler by the entry point of its base', async () => {
    const { Entrypoint, Cmd } = await configOf(lambda);

    assert.deepEqual([...Entrypoint, ...Cmd], ['/lambda-entrypoint.sh', 'handler.handler']);
  });

  it('runs as a user other than root, who can write to /tmp alone', async () => {
    const writable = await runInside(container, 'find / -xdev -writable ! -type l 2>/dev/null || true');

    assert.equal(await runInside(container, 'id -u'), '65534');
    assert.deepEqual(writable.split('\n'), ['/tmp']);
  });

  it('has no compiler, no package manager for code and no interpreter of it but Node', async () => {
    const tools = 'npm npx yarn corepack pip pip3 python python3 cc gcc g++ c++ clang make cmake ld as git curl wget';

    assert.equal(await runInside(container, `for tool in ${tools}; do command -v $tool || true; done`), '');
    assert.equal(await runInside(container, 'command -v node'), '/var/lang/bin/node');
  });

  it("holds this platform's ONNX Runtime alone, which asks for nothing newer than Amazon Linux 2023", async () => {
    const find = "find / -xdev -path '*onnxruntime*' -type f '(' -name '*.node' -o -name '*.so*' ')' | sort";
    const binaries = (await runInside(container, find)).split('\n');
    const folder = `/var/task/node_modules/onnxruntime-node/bin/napi-v6/linux/${process.arch}`;
    assert.deepEqual(binaries, [`${folder}/libonnxruntime.so.1`, `${folder}/onnxruntime_binding.node`]);

    for (const [symbols, newest] of Object.entries(NEWEST_SYMBOLS)) {
      const found = await runInside(container, `grep -ahoE '${symbols}[0-9]+' ${binaries.join(' ')} | sort -u`);
      const asked = found.split('\n').map((symbol) => Number(symbol.slice(symbols.length)));
      assert.ok(Math.max(...asked) <= newest, `expected ${symbols}${newest} at most, got ${found}`);
    }
  });
});

describe('the lambda image for the other processor', () => {
  it('is built without running a line on it', async () => {
    const architecture = ARCHITECTURE === 'arm64' ? 'x86_64' : 'arm64';
    const platform = `linux/${architecture === 'arm64' ? 'arm64' : 'amd64'}`;

    const args = { LAMBDA_BASE: await emptyBase(platform) };
    const tag = await build('lambda', stage({ architecture }), { platform, args });

    assert.equal(`linux/${await architectureOf(tag)}`, platform);
  });
});

describe('the function in the lambda image', () => {
  let scoring: ScoringFunction;
  before(async () => {
    scoring = await startFunction(lambda, queues.environment);
  });
  after(() => scoring?.stop());

  it('is ready well within the time that Lambda gives it', () => {
    console.log(`lambda: cold start ${Math.round(scoring.startMs)} ms, with the container's own`);

    assert.deepEqual(scoring.start, { ready: true });
    assert.ok(scoring.startMs < LONGEST_INIT_MS, `expected less than ${LONGEST_INIT_MS} ms, got ${scoring.startMs}`);
  });

  it('answers every record under its message ID: with its score, or with what is wrong with it', async () => {
    const messages = imageMessages();
    const event = await queues.deliver(messages.map(({ body }) => body));
    assert.equal(event.Records.length, messages.length);

    let response: unknown;
    const seconds = await secondsOf(async () => {
      response = await scoring.invoke(event);
    });
    console.log(`lambda: ${messages.length} records answered in ${seconds} s`);

    assert.deepEqual(response, { batchItemFailures: [] });
    const results = await queues.takeResults();
    assert.equal(results.size, messages.length);
    for (const [index, { messageId }] of event.Records.entries()) {
      assert.partialDeepStrictEqual(results.get(messageId), messages[index]?.expected);
    }
  });

  it('hands back every record whose result cannot be written, and answers it when it comes again', async () => {
    const event = await queues.deliver(imageMessages().map(({ body }) => body));
    const ids = event.Records.map(({ messageId }) => messageId);

    await queues.deleteResultQueue();
    const whileGone = await scoring.invoke(event);
    await queues.createResultQueue();
    const again = await scoring.invoke(event);

    assert.deepEqual(whileGone, { batchItemFailures: ids.map((itemIdentifier) => ({ itemIdentifier })) });
    assert.deepEqual(again, { batchItemFailures: [] });
    assert.deepEqual([...(await queues.takeResults()).keys()].toSorted(), ids.toSorted());
  });
});

describe('a function that would not score', () => {
  it('refuses to start on a variable that does not exist', async () => {
    const said = await refusalOf(lambda, { ...queues.environment, BATCHSCORE_BATCHSIZE: '10' });

    assert.match(said, /^configuration: BATCHSCORE_BATCHSIZE: expected one of BATCHSCORE_MODELS_DIR, /);
  });

  it('refuses to start on a model file that was cut short', async () => {
    const models = temporaryFolder();
    cpSync(MODELS, models, { recursive: true });
    truncateSync(join(models, 'digits/1/model.onnx'), 50_000);

    const said = await refusalOf(await build('lambda', stage({ modelsDirectory: models })), queues.environment);

    assert.match(
      said,
      /^models\/digits\/1\/model\.onnx: expected at least \d+ bytes, got 50000; the file was cut short/,
    );
  });
});

describe('the lambda-gpu image', () => {
  let gpu: string;
  before(async () => {
    gpu = await (withCuda ? buildWithCuda() : buildWithoutCuda());
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
    const libraries = `/opt/lib/* node_modules/onnxruntime-node/bin/napi-v6/linux/*/*`;

    const linked = await runInside(container, `for file in ${libraries}; do ldd $file 2>/dev/null || true; done`);

    const missing = new Set(linked.split('\n').flatMap((line) => /(\S+) => not found/.exec(line)?.[1] ?? []));
    assert.deepEqual([...missing], withCuda ? ['libcuda.so.1'] : []);
    assert.match(await runInside(container, 'echo $LD_LIBRARY_PATH'), /^\/opt\/lib:\/var\/lang\/lib:/);
  });

  it('is the lambda image otherwise', async () => {
    assert.deepEqual({ ...(await configOf(gpu)), Env: [] }, { ...(await configOf(lambda)), Env: [] });
  });
});

async function buildWithCuda(): Promise<string> {
  const tag = await build('lambda-gpu', stage(), { args: { PYTHON_BASE: await pythonBase() } });
  console.log(`lambda-gpu: ${await megabytesOf(tag)} MB unpacked, with CUDA`);
  return tag;
}

async function buildWithoutCuda(): Promise<string> {
  console.log('*** lambda-gpu: BUILT WITHOUT CUDA, 1.5 GB from PyPI; npm run test:image -- --cuda builds it with. ***');
  console.log('*** lambda-gpu: NOT RUN ON A GPU, which a build machine does not have.                           ***');
  const noCuda = temporaryFolder();
  for (const folder of ['cuda/lib', 'cuda/providers']) mkdirSync(join(noCuda, folder), { recursive: true });
  return build('lambda-gpu', stage(), { stages: { cuda: noCuda } });
}
