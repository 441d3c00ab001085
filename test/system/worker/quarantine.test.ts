import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { HOSTS, type Host, lookup, useHosts } from '../../helpers/hosts.ts';
import { CULPRIT, culpritModel, lookupModel } from '../../helpers/onnxModels.ts';

/** `npm run test:quarantine` sets it to 20, which takes about two hours, and print the table of docs/guarantees.md. */
const SEEDS = Number(process.env.SEEDS ?? 1);
const COUNTS = process.env.SEEDS === undefined ? [5] : [1, 2, 5, 10];
const MESSAGES = 45;
const ROUND_MS = 400_000;

const KINDS = { ...CULPRIT, aborts: 7_004, overflows: 7_005 } as const;
type Kind = keyof typeof KINDS;
const CODES: Readonly<Record<Kind, string>> = {
  traps: 'MODEL_CRASHED',
  hangs: 'RUN_TIMED_OUT',
  fills: 'OUT_OF_MEMORY',
  aborts: 'MODEL_CRASHED',
  overflows: 'MODEL_CRASHED',
};

const MODELS = {
  'lookup/1/model.onnx': lookupModel(),
  'culprit/1/model.onnx': culpritModel(),
  'culprit/config.json': { batching: 'trust', transform: 'transform.mjs', sessionOptions: { logSeverityLevel: 4 } },
  // A stack that overflows in native code ends a process so.
  'culprit/transform.mjs': `export function decode({ index }) {
    if (index === ${KINDS.aborts}) process.abort();
    if (index === ${KINDS.overflows}) process.kill(process.pid, 'SIGSEGV');
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }];
  }`,
};

/** Numbers from 0 to below 1 that are the same for a seed. */
function randomOf(seed: number): () => number {
  let state = seed + 1;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

function culpritsOf(count: number, seed: number): (Kind | undefined)[] {
  const kinds = Object.keys(KINDS) as Kind[];
  const random = randomOf(97 * seed + count);
  return Array.from({ length: MESSAGES }, (_, index) => ({
    kind: index < count ? kinds[(index + seed) % kinds.length] : undefined,
    place: random(),
  }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ kind }) => kind);
}

// Hosts and their children start often here.
const { NODE_COMPILE_CACHE = '' } = process.env;
const COMPILED = { NODE_COMPILE_CACHE };
/** What is held does not come back meanwhile, even on a busy machine. */
const hosts = useHosts(2);
const table: string[] = [];

describe('2. A message can only fail itself', () => {
  describe.each(HOSTS)('%s', (name) => {
    let host: Host;
    beforeAll(async () => {
      host = await hosts.start(name, { models: MODELS, timeoutSeconds: 60, environment: COMPILED });
    });

    it.each(COUNTS)(
      `answers %i culprits and all others of ${MESSAGES} messages`,
      async (count) => {
        const [startedAt, receives] = [performance.now(), [] as number[]];
        for (let seed = 0; seed < SEEDS; seed++) {
          const culprits = culpritsOf(count, seed);
          const ids = host.send(
            culprits.map((kind, index) => ({ model_name: 'culprit', index: kind ? KINDS[kind] : index })),
          );
          const answers = await host.answers(ids);

          expect(answers.map(({ code, outputs }) => code ?? outputs?.[0]?.data[0])).toEqual(
            culprits.map((kind, index) => (kind ? CODES[kind] : 10 * index)),
          );
          await host.become('deleted', ids);
          receives.push(...host.receives(ids.filter((_, index) => culprits[index] !== undefined)));
        }
        expect(Math.max(...receives)).toBeLessThanOrEqual(3);
        const seconds = ((performance.now() - startedAt) / 1000 / SEEDS).toFixed(0);
        table.push(
          `| ${name} | ${count} | ${SEEDS * (MESSAGES - count)} | 0 | 0 | ${Math.max(...receives)} | ${seconds} s |`,
        );
      },
      SEEDS * ROUND_MS,
    );

    it('still answers', async () => {
      const ids = host.send([lookup(0)]);
      expect(await host.answers(ids)).toMatchObject([{ outputs: [{ data: [10] }] }]);
      await host.stop();
    });
  });
});

afterAll(() => console.log(table.join('\n')));
