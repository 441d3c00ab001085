import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { emptyBase } from './bases.ts';
import { secondsOf } from './command.ts';
import { ARCHITECTURE, build, common, stage } from './common.ts';
import { architectureOf, configOf, makeContainer, runInside } from './images.ts';
import { imageMessages } from './messages.ts';
import type { ImageQueues } from './queues.ts';
import { type ScoringFunction, startFunction } from './scoringFunction.ts';

/** Lambda ends an environment that takes longer to start. */
const LONGEST_INIT_MS = 10_000;

/** What Amazon Linux 2023 has, on which Lambda runs Node 24. The base of this test is newer. */
const NEWEST_SYMBOLS: Readonly<Record<string, number>> = { 'GLIBC_2.': 34, 'GLIBCXX_3.4.': 29 };

describe('the lambda image', () => {
  let lambda: string;
  let container: string;
  before(async () => {
    ({ lambda } = await common());
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

    const tag = await build('lambda', await emptyBase(platform), stage('lambda', { architecture }), { platform });

    assert.equal(`linux/${await architectureOf(tag)}`, platform);
  });
});

describe('the function in the lambda image', () => {
  let queues: ImageQueues;
  let scoring: ScoringFunction;
  before(async () => {
    const { lambda, ...others } = await common();
    queues = others.queues;
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
