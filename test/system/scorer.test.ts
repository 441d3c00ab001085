import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from '@jest/globals';
import { aMoment, HOSTS, type Host, type HostName, LOOKUP, lookup, useHosts } from '../helpers/hosts.ts';
import { CULPRIT, culpritModel, lookupModel, trappingWhenOpened } from '../helpers/onnxModels.ts';
import { afterThisTest, modelsDirectory } from '../helpers/openModels.ts';
import { scorersOf } from '../helpers/processes.ts';

/** `npm run test:culprits` sets it: then messages come for a minute, and the tables of docs/guarantees.md are printed. */
const IS_LONG = process.env.SEEDS !== undefined;
const table: string[] = [];

/** Decoding a request blocks for as long as it says, whatever else the machine does. */
const BLOCKING = {
  ...LOOKUP,
  'blocking/1/model.onnx': lookupModel(),
  'blocking/config.json': { transform: 'transform.mjs' },
  'blocking/transform.mjs': `const cell = new Int32Array(new SharedArrayBuffer(4));
  export function decodeBatch(requests) {
    return requests.map(({ ms }) => {
      console.log('blocks for', ms);
      Atomics.wait(cell, 0, 0, ms);
      return [{ name: 'index', datatype: 'INT64', shape: [1], data: [0] }];
    });
  }`,
};
const CULPRITS = {
  ...LOOKUP,
  'culprit/1/model.onnx': culpritModel(),
  'culprit/config.json': { batching: 'trust', sessionOptions: { logSeverityLevel: 4 } },
};
const CULPRIT_REQUEST = (index: number) => ({
  model_name: 'culprit',
  inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }],
});

const hosts = useHosts();

const blocking = (ms: number) => ({ model_name: 'blocking', ms });

type Models = Parameters<typeof hosts.start>[1]['models'];

function start(name: HostName, models: Models, environment = {}, timeoutSeconds = 30): Promise<Host> {
  return hosts.start(name, { models, timeoutSeconds, environment });
}

describe('2. A message can only fail itself', () => {
  describe.each(HOSTS)('%s', (name) => {
    it.each(IS_LONG ? [20, 40, 60, 80] : [40])(
      'answers equal honest messages that each take %i %% of the timeout with their scores',
      async (percent) => {
        const timeoutSeconds = IS_LONG ? 30 : 15;
        const host = await start(name, BLOCKING, {}, timeoutSeconds);
        const ids = host.send(Array.from({ length: IS_LONG ? 6 : 2 }, () => blocking(10 * percent * timeoutSeconds)));
        const answers = await host.answers(ids);

        expect(answers.map(({ code }) => code)).toEqual(ids.map(() => undefined));
        table.push(`| ${name} | ${percent} % | 0 of ${ids.length} | ${Math.max(...host.receives(ids))} |`);
      },
      400_000,
    );

    it.each(['host', 'scorer'])(
      'keeps its processes and convicts nobody if the %s stands still during a run',
      async (stopped) => {
        const host = await start(name, BLOCKING);
        const before = [host.pid(), ...scorersOf(host.pid())];
        const ids = host.send([blocking(500), lookup(0), lookup(1)]);
        while (!host.printed().includes('blocks for 500')) await aMoment();
        const pid = stopped === 'host' ? host.pid() : (scorersOf(host.pid())[0] as number);
        process.kill(pid, 'SIGSTOP');
        await sleep(IS_LONG ? 10_000 : 4_000);
        process.kill(pid, 'SIGCONT');

        expect((await host.answers(ids)).map(({ code }) => code)).toEqual([undefined, undefined, undefined]);
        expect(host.receives(ids)).toEqual([1, 1, 1]);
        expect([host.pid(), ...scorersOf(host.pid())]).toEqual(before);
      },
      60_000,
    );

    it('convicts no request whose process is killed once while it runs with others, and once alone', async () => {
      const host = await start(name, BLOCKING);
      const ids = host.send([blocking(700)]);
      for (const time of [1, 2]) {
        while (host.printed().split('blocks for 700').length <= time) await aMoment();
        for (const pid of scorersOf(host.pid())) process.kill(pid, 'SIGKILL');
      }

      expect(await host.answers(ids)).toMatchObject([{ outputs: [{ data: [10] }] }]);
      expect(host.receives(ids)).toEqual([1]);
    }, 60_000);

    it('convicts no request of a model that ends the process that opens it again', async () => {
      const directory = await modelsDirectory(CULPRITS);
      const host = await start(name, CULPRITS, { BATCHSCORE_MODELS_DIR: directory });
      const warm = host.send([CULPRIT_REQUEST(1), lookup(0)]);
      await host.become('deleted', warm);
      writeFileSync(join(directory, 'culprit/1/model.onnx'), trappingWhenOpened());
      const [suspect = ''] = host.send([CULPRIT_REQUEST(CULPRIT.traps)]);
      while ((host.receives([suspect])[0] ?? 0) < 2 && host.fates([suspect])[0] !== 'deleted') await aMoment();

      expect(host.written().filter(({ message_id }) => message_id === suspect)).toEqual([]);
      await host.become('deleted', host.send([lookup(2)]));
    }, 60_000);

    it('leaves a model alone after 16 requests in a row that ended a process, and scores other models', async () => {
      const host = await start(name, CULPRITS);
      const culprits = (length: number) => Array.from({ length }, () => CULPRIT_REQUEST(CULPRIT.traps));
      // A good run between them: they are not of the row.
      for (const before of [culprits(2), [CULPRIT_REQUEST(1)]]) await host.become('deleted', host.send(before));
      const ids = host.send(culprits(18));
      const ended = (fate: string) => host.fates(ids).filter((one) => one === fate).length;
      while (ended('deleted') + ended('dead') < 18) await aMoment();

      expect([ended('deleted'), ended('dead')]).toEqual([16, 2]);
      expect(host.written().filter(({ code }) => code === 'MODEL_CRASHED')).toHaveLength(2 + 16);
      expect(host.printed()).toMatch(/"code":"MODEL_UNAVAILABLE"/);
      await host.become('deleted', host.send([lookup(2)]));
    }, 60_000);

    it.each(['EMFILE', 'EAGAIN', 'ENOMEM'] as const)(
      'answers at the first receive once a scorer can be started again that could not by %s',
      async (code) => {
        const folder = mkdtempSync(join(tmpdir(), 'batchscore-refuses-'));
        afterThisTest(async () => rmSync(folder, { recursive: true }));
        const isRefused = join(folder, 'refused');
        const preload = join(folder, 'preload.mjs');
        writeFileSync(preload, refusesProcesses(isRefused, constants.errno[code]));
        const host = await start(name, CULPRITS, { NODE_OPTIONS: `--import=${preload}` });
        const [warm = ''] = host.send([lookup(0)]);
        await host.become('deleted', [warm]);
        writeFileSync(isRefused, '');
        const ids = host.send([CULPRIT_REQUEST(CULPRIT.traps), lookup(0), CULPRIT_REQUEST(1), lookup(2)]);
        while (!host.printed().includes('it is tried again')) await aMoment();
        rmSync(isRefused);
        const answers = await host.answers(ids);

        expect(existsSync(isRefused)).toBe(false);
        expect(answers.map(({ code: failed }) => failed)).toEqual(['MODEL_CRASHED', undefined, undefined, undefined]);
        expect(host.receives(ids)).toEqual([1, 1, 1, 1]);
        // Once for each process, however many calls it had.
        expect(host.printed().match(/the scorer was lost/g)).toHaveLength(2);
      },
      60_000,
    );

    it.each(IS_LONG ? [1, 3] : [1])(
      'answers 50 innocents a second beside %i culprits a second',
      async (rate) => {
        const host = await start(name, CULPRITS);
        const seconds = IS_LONG ? 60 : 3;
        const innocents: string[] = [];
        const culprits: string[] = [];
        const startedAt = performance.now();
        for (let tick = 0; tick < 10 * seconds; tick++) {
          innocents.push(...host.send(Array.from({ length: 5 }, (_, n) => (n === 0 ? CULPRIT_REQUEST(n) : lookup(n)))));
          if (rate * Math.floor(tick / 10) + Math.floor((rate * (tick % 10)) / 10) >= culprits.length)
            culprits.push(...host.send([CULPRIT_REQUEST(CULPRIT.traps)]));
          await sleep(Math.max(0, startedAt + 100 * (tick + 1) - performance.now()));
        }
        const during = new Set(host.written().map(({ message_id }) => message_id));
        const share = innocents.filter((id) => during.has(id)).length / innocents.length;
        const endedAt = performance.now();
        const answers = await host.answers([...innocents, ...culprits]);
        const after = (performance.now() - endedAt) / 1000;

        expect(answers.map(({ code }) => code)).toEqual([
          ...innocents.map(() => undefined),
          ...culprits.map(() => 'MODEL_CRASHED'),
        ]);
        const receives = Math.max(...host.receives([...innocents, ...culprits]));
        table.push(
          `| ${name} | ${rate} a second | ${(100 * share).toFixed(0)} % | ${after.toFixed(0)} s | ${receives} |`,
        );
      },
      400_000,
    );
  });
});

/** Has the system refuse every new process of a host with this error, as long as the file is there. */
function refusesProcesses(file: string, errno: number): string {
  return `import { ChildProcess } from 'node:child_process';
  import { existsSync } from 'node:fs';
  const process = Object.getPrototypeOf(new ChildProcess()._handle);
  const { spawn } = process;
  process.spawn = function (...how) {
    return existsSync(${JSON.stringify(file)}) ? -${errno} : spawn.apply(this, how);
  };`;
}

afterAll(() => console.log(table.join('\n')));
