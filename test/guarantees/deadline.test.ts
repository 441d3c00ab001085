import { describe, expect, it } from '@jest/globals';
import { ENDLESS, HOSTS, LOOKUP, lookup, useHosts } from '../helpers/hosts.ts';
import { turningModel } from '../helpers/onnxModels.ts';

const hosts = useHosts(2);
const MODELS = { ...LOOKUP, 'turns/1/model.onnx': turningModel() };
const SHORT = ENDLESS.replace('4000000000000', '3');

describe('4. A run starts only if it is expected to finish', () => {
  it('the function writes nothing when too little time is left, and hands everything back', async () => {
    const host = await hosts.start('the function', { models: LOOKUP, timeoutSeconds: 1 });
    const ids = host.send([lookup(0), lookup(1)]);
    await host.become('dead', ids);

    expect(host.receives(ids)).toEqual([20, 20]);
    expect(host.written()).toEqual([]);
    expect(host.printed()).toContain('"DEADLINE"');
  });

  it.each(HOSTS)(
    '%s ends a run that does not end, answers the others meanwhile, and the message with an error',
    async (name) => {
      const host = await hosts.start(name, {
        models: MODELS,
        timeoutSeconds: 20,
        environment: { BATCHSCORE_DEADLINE_MARGIN_MS: '500' },
      });
      const [endless = '', ...others] = host.send([ENDLESS, lookup(0), lookup(1), SHORT]);
      await host.become('deleted', others);
      await host.become('deleted', [endless]);

      expect(await host.answers([endless])).toMatchObject([{ code: 'RUN_TIMED_OUT' }]);
      expect(host.written()).toHaveLength(4);
      expect(host.receives(others)).toEqual([1, 1, 1]);
    },
    180_000,
  );

  it.each(HOSTS)(
    '%s never answers slow messages with an error that take much of its time each',
    async (name) => {
      const host = await hosts.start(name, { models: MODELS, timeoutSeconds: 10 });
      const probeMs = async (): Promise<number> => {
        const startedAt = performance.now();
        await host.answers(host.send([turns(PROBE)]));
        return performance.now() - startedAt;
      };
      // A machine that becomes slower meanwhile makes messages of 40 % of the timeout take all of it: that tells nothing.
      for (let before = await probeMs(), after = Infinity; after > STEADY * before; before = after) {
        const ids = host.send(Array.from({ length: 3 }, () => turns(Math.round((PROBE * 4_000) / before))));
        await host.become('deleted', ids);
        const codes = (await host.answers(ids)).map(({ code }) => code);
        after = await probeMs();

        if (after <= STEADY * before) expect(codes).toEqual([undefined, undefined, undefined]);
      }
    },
    180_000,
  );
});

/** Takes about a second. */
const PROBE = 500_000;
/** A machine is steady that takes less than this many times as long afterwards. */
const STEADY = 1.5;

function turns(count: number): string {
  return ENDLESS.replace('4000000000000', String(count));
}
