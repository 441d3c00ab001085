import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { REPOSITORY, runScript } from '../helpers/command.ts';
import { HOSTS, LOOKUP, lookup, startHandler, useHosts } from '../helpers/hosts.ts';
import { afterThisTest, modelsDirectory } from '../helpers/openModels.ts';
import { scorersOf } from '../helpers/processes.ts';

const hosts = useHosts();
const DIGITS = join(REPOSITORY, 'models/digits/1/model.onnx');

/** Prints the port and host of every connection that the process opens. */
const TELLS_CONNECTIONS = `import { subscribe } from 'node:diagnostics_channel';
subscribe('net.client.socket', ({ socket }) => {
  socket.on('connect', () => process.stderr.write('connected to ' + socket.remoteAddress + ':' + socket.remotePort + '\\n'));
});`;

/** A home in which ONNX Runtime's telemetry would leave its files: it is silent where the environment is one of CI. */
async function emptyHome(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'batchscore-home-'));
  afterThisTest(() => rm(home, { recursive: true }));
  return home;
}

describe('7. Nothing leaves the account', () => {
  it.each(HOSTS)(
    '%s connects to the queues of its settings alone, and has no telemetry, even where it is on',
    async (name) => {
      const home = await emptyHome();
      const preload = `data:text/javascript,${encodeURIComponent(TELLS_CONNECTIONS)}`;
      const host = await hosts.start(name, {
        models: LOOKUP,
        environment: { HOME: home, ORT_DISABLE_TELEMETRY: '0', NODE_OPTIONS: `--import=${preload}` },
      });
      const ids = host.send([lookup(0)]);
      await host.answers(ids);
      await host.become('deleted', ids);
      const printed = host.printed();

      const { host: sqs } = new URL(hosts.sqs().endpoint);
      expect(new Set(printed.match(/(?<=^connected to ).*$/gm))).toEqual(new Set([sqs]));
      expect(await readdir(home)).toEqual([]);
    },
  );

  it('has no thread more where ONNX Runtime is told to have telemetry than where it is not', async () => {
    const threads = async (ORT_DISABLE_TELEMETRY: string) => {
      const host = await hosts.start('the function', { models: LOOKUP, environment: { ORT_DISABLE_TELEMETRY } });
      await host.answers(host.send([lookup(0)]));
      return new Set(host.threads());
    };

    expect(await threads('0')).toEqual(await threads('1'));
  });

  it.each([
    ['batchscore inspect', 'cli/batchscore.ts', ['inspect', DIGITS]],
    ['npm start', 'cli/start.ts', ['--messages', '20']],
  ])('%s has no telemetry', async (_, script, args) => {
    const home = await emptyHome();
    const { code, stderr } = await runScript(script, args, { env: { HOME: home, ORT_DISABLE_TELEMETRY: '0' } });

    expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
    expect(await readdir(home)).toEqual([]);
  });

  it('npx cdk has no telemetry here', () => {
    expect(JSON.parse(readFileSync(join(REPOSITORY, 'cdk.json'), 'utf8')).context).toMatchObject({
      'cli-telemetry': false,
    });
  });

  it('a handler in a worker thread, as on Managed Instances, opens models in a process without telemetry', async () => {
    const variables = {
      BATCHSCORE_MODELS_DIR: await modelsDirectory(LOOKUP),
      BATCHSCORE_REQUEST_QUEUE_URL: 'http://127.0.0.1:1/0/requests',
      BATCHSCORE_RESULT_QUEUE_URL: 'http://127.0.0.1:1/0/results',
    };
    const { pid = 0 } = await startHandler(variables, { inThread: true });
    const [scorer] = scorersOf(pid);
    expect(readFileSync(`/proc/${scorer}/environ`, 'latin1').split('\0')).toContain('ORT_DISABLE_TELEMETRY=1');
  });
});
