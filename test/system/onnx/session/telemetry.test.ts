import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { REPOSITORY } from '../../../helpers/command.ts';

const run = promisify(execFile);
const DIGITS = join(REPOSITORY, 'models/digits/1/model.onnx');
const moduleOf = (path: string): string => JSON.stringify(new URL(`../../../../${path}`, import.meta.url));

/** Opens a session and prints the names of the process's threads, where the system tells them. */
const OPEN = `
  import { existsSync, readdirSync, readFileSync } from 'node:fs';
  import { openSession } from ${moduleOf('lambda/onnx/session.ts')};
  const session = await openSession({ path: ${JSON.stringify(DIGITS)}, providers: ['cpu'], sessionOptions: {} });
  const threads = existsSync('/proc/self/task') ? readdirSync('/proc/self/task') : [];
  console.log(JSON.stringify(threads.map((id) => readFileSync('/proc/self/task/' + id + '/comm', 'utf8').trim()).sort()));
  await session.close();
`;
const OPEN_BARE = `
  import { createBareSession } from ${moduleOf('bench/contestants/bareSession.ts')};
  await (await createBareSession(${JSON.stringify(DIGITS)})).release();
`;
/** @param first what the main thread does before it starts the one that opens the session */
const openInWorker = (first = ''): string => `
  import { Worker } from 'node:worker_threads';
  ${first}
  new Worker(new URL(${JSON.stringify(`data:text/javascript,${encodeURIComponent(OPEN)}`)}));
`;

/** It looks at the process's own environment, and is silent where that is one of CI. */
describe("ONNX Runtime's telemetry", () => {
  let folder = '';
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'batchscore-telemetry-'));
    await mkdir(join(folder, 'home'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  const start = (args: readonly string[], variables: Readonly<Record<string, string>> = {}) => {
    const env = { PATH: process.env.PATH, HOME: join(folder, 'home'), ...variables };
    return run(process.execPath, args, { cwd: REPOSITORY, env });
  };
  const evaluate = async (code: string, variables?: Readonly<Record<string, string>>) => {
    const file = join(folder, 'code.mjs');
    await writeFile(file, code);
    return start([file], variables);
  };
  const written = () => readdir(join(folder, 'home'), { recursive: true });

  it('is off in whatever process opens a session: no file is written, and it has no thread', async () => {
    const { stdout: threads } = await evaluate(OPEN);
    expect(await written()).toEqual([]);

    const { stdout: threadsWhereOff } = await evaluate(OPEN, { ORT_DISABLE_TELEMETRY: '1' });
    expect(JSON.parse(threads)).toEqual(JSON.parse(threadsWhereOff));
  });

  it('is off where somebody turned it on', async () => {
    await evaluate(OPEN, { ORT_DISABLE_TELEMETRY: '0' });
    expect(await written()).toEqual([]);
  });

  it.each([
    ['batchscore inspect', ['cli/batchscore.ts', 'inspect', DIGITS]],
    ['npm start', ['cli/start.ts', '--messages', '20']],
  ])('is off for %s', async (_, args) => {
    await start(args);
    expect(await written()).toEqual([]);
  });

  it('is off for the bench, which has sessions on its main thread', async () => {
    await evaluate(OPEN_BARE);
    expect(await written()).toEqual([]);
  });

  describe('where a worker thread opens the session, whose environment is a copy', () => {
    it.each([
      ['the environment of the process', openInWorker(), { ORT_DISABLE_TELEMETRY: '1' }],
      ['its main thread', openInWorker("process.env.ORT_DISABLE_TELEMETRY = '1';"), {}],
    ])('is off by %s', async (_, code, variables) => {
      await evaluate(code, variables);
      expect(await written()).toEqual([]);
    });

    it('is refused to be on', async () => {
      await expect(evaluate(openInWorker())).rejects.toThrow(
        'expected ORT_DISABLE_TELEMETRY=1 in the environment of a process that opens models in worker threads, got none; ' +
          "set it before the process starts: else ONNX Runtime sends its maker the model's name and hashes",
      );
      expect(await written()).toEqual([]);
    });
  });
});
