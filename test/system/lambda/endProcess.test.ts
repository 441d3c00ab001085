import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from '@jest/globals';

const MODULE = new URL('../../../lambda/hosts/endProcess.ts', import.meta.url).href;
const IMPORT = `const { endProcess } = await import(${JSON.stringify(MODULE)});`;
/** What keeps a process from ending, and what `process.exit` would wait for. */
const NEVER_ENDS = "setInterval(() => {}, 1000); process.on('exit', () => { for (;;); });";

function start(code: string): ChildProcess & { readonly stdout: NodeJS.ReadableStream } {
  const args = ['--input-type=module', '--eval', `${IMPORT} ${code}`];
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] }) as never;
}

describe('endProcess', () => {
  it('ends the process with its code, whatever it has to do', async () => {
    const child = start(`${NEVER_ENDS} await endProcess(3);`);

    expect(await once(child, 'exit')).toEqual([3, null]);
  });

  it('first writes out what was printed', async () => {
    const child = start("process.stdout.write('x'.repeat(3_000_000)); await endProcess(0);");

    expect(await text(child.stdout)).toHaveLength(3_000_000);
  });

  it('does not wait for ever for a reader that takes nothing', async () => {
    const child = start("process.stdout.write('x'.repeat(3_000_000)); await endProcess(4);");

    expect(await once(child, 'exit')).toEqual([4, null]);
    child.stdout.resume();
  });

  it('kills the process where it cannot become another one: in a worker thread', async () => {
    const inThread = `${IMPORT} endProcess(5);`;
    const child = start(
      `${NEVER_ENDS} const { Worker } = await import('node:worker_threads');
       new Worker(new URL(${JSON.stringify(`data:text/javascript,${encodeURIComponent(inThread)}`)}));`,
    );

    expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
  });
});
