import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { modelsDirectory } from '../../helpers/openModels.ts';

const LOAD_TRANSFORM = new URL('../../../lambda/onnx/loadTransform.ts', import.meta.url).href;

/** As the runtime of Lambda does. */
const LISTENERS_THAT_EXIT = `
  process.on('uncaughtException', (error) => { console.error(error.message); process.exit(129); });
  process.on('unhandledRejection', (error) => { console.error(error.message); process.exit(128); });`;

/** Goes wrong as \`body.how\` says, after it has returned unless it waits; answers \`body.id\`. */
const TRANSFORM = `
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
const secret = 'the body of a request\\n    at a line of it';
const goWrong = () => { throw new TypeError(secret); };
const ways = {
  well: () => {},
  rejection: () => { Promise.reject(new TypeError(secret)); },
  laterRejection: () => { sleep(1).then(goWrong); },
  nothingRejected: () => { Promise.reject(); },
  timer: () => { setTimeout(goWrong, 1); },
  immediate: () => { setImmediate(goWrong); },
  tick: () => { process.nextTick(goWrong); },
  microtask: () => { queueMicrotask(goWrong); },
  unreadable: () => { Promise.reject(Object.defineProperty(new TypeError(), 'message', { get: goWrong })); },
  event: () => { setTimeout(() => new EventEmitter().emit('error', new TypeError(secret)), 1); },
};
export const decode = ({ how, id }) => { ways[how](); return id; };
export const encode = async ({ how, id, waitMs }) => { await sleep(1); ways[how](); await sleep(waitMs); return id; };
`;

/** Runs `code` in a process of its own, with the hooks of a transform, `warnings`, and `answers` to be filled. */
async function inOwnProcess(code: string, { transform = TRANSFORM, listeners = LISTENERS_THAT_EXIT } = {}) {
  const folder = await modelsDirectory({});
  await writeFile(join(folder, 'transform.mjs'), transform);
  const script = `${listeners}
    import { setTimeout as sleep } from 'node:timers/promises';
    const { loadTransform } = await import(${JSON.stringify(LOAD_TRANSFORM)});
    const warnings = [];
    const answers = [];
    const warn = (message) => warnings.push(message);
    const { decode, encode } = await loadTransform(${JSON.stringify(join(folder, 'transform.mjs'))}, warn, 2_000);
    const settled = (promises) => Promise.all(promises.map((one) => Promise.resolve(one).catch((error) => error.name)));
    ${code}
    while (warnings.length === 0) await sleep(1);
    console.log(JSON.stringify({ answers, warnings }));`;
  return promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script]);
}

async function told(code: string, options = {}) {
  return JSON.parse((await inOwnProcess(code, options)).stdout);
}

const WAYS = ['rejection', 'laterRejection', 'timer', 'immediate', 'tick', 'microtask', 'event'];

describe('an error of a transform that nobody waits for', () => {
  it('fails neither the process nor a neighbour, nor the request where that was done', async () => {
    const hows = ['well', ...WAYS, 'unreadable', 'well'];

    const { answers } = await told(`
      for (const how of ${JSON.stringify(hows)}) answers.push(decode({ how, id: how }));
      answers.push(...(await settled([encode({ how: 'well', id: 'neighbour', waitMs: 100 })])));
    `);

    expect(answers).toEqual([...hows, 'neighbour']);
  });

  it('fails the request alone that is still waiting', async () => {
    const hows = ['well', ...WAYS, 'well'];

    const { answers } = await told(`
      const waiting = ${JSON.stringify(hows)}.map((how) => encode({ how, id: how, waitMs: how === 'well' ? 100 : 400 }));
      answers.push(...(await settled(waiting)));
    `);

    expect(answers).toEqual(['well', ...WAYS.map(() => 'TypeError'), 'well']);
  });

  it('is told of once for each place, without its message: that may quote a request', async () => {
    const { warnings } = await told(`
      for (const how of ['rejection', 'rejection', 'nothingRejected', 'timer', 'timer']) decode({ how, id: 1 });
      await sleep(100);
    `);

    expect(warnings).toEqual([
      expect.stringMatching(/^\S+transform\.mjs: expected the transform to handle all its errors, got an/),
      expect.stringContaining('undefined, which is no Error'),
      expect.stringContaining('TypeError at '),
    ]);
    expect(warnings.join()).not.toContain('a request');
    expect(warnings.join()).not.toContain('a line of it');
  });

  it('may come from the module itself', async () => {
    const transform = 'setTimeout(() => { throw new Error(); }, 1); export const decode = ({ id }) => id;';

    const { answers, warnings } = await told('answers.push(decode({ id: 1 }));', { transform });

    expect(answers).toEqual([1]);
    expect(warnings).toEqual([expect.stringContaining('got an unhandled one: Error at ')]);
  });
});

describe('an error from anywhere else', () => {
  it.each([
    ['a throw', 'setTimeout(() => { throw new Error("bug"); }, 1);', LISTENERS_THAT_EXIT, 129],
    ['a rejection', 'Promise.reject(new Error("bug"));', LISTENERS_THAT_EXIT, 128],
    ['a throw that nobody listens for', 'setTimeout(() => { throw new Error("bug"); }, 1);', '', 1],
    ['a rejection that nobody listens for', 'Promise.reject(new Error("bug"));', '', 1],
  ])('ends the process as ever: %s', async (_, bug, listeners, code) => {
    const running = inOwnProcess(`await encode({ how: 'well', id: 1, waitMs: 1 }); ${bug}`, { listeners });

    await expect(running).rejects.toMatchObject({ code, stderr: expect.stringContaining('bug') });
  });
});
