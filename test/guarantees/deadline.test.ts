import { describe, expect, it } from '@jest/globals';
import { ENDLESS, HOSTS, LOOKUP, lookup, useHosts } from '../helpers/hosts.ts';
import { turningModel } from '../helpers/onnxModels.ts';

const hosts = useHosts();
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

  it('the function hands back what a store does not take in time, before its own time is over', async () => {
    const host = await hosts.start('the function', {
      models: LOOKUP,
      timeoutSeconds: 4,
      environment: { BATCHSCORE_DEADLINE_MARGIN_MS: '2000' },
    });
    const pid = host.pid();
    let silenced = 0;
    hosts.intercept(({ operation, queue }) =>
      operation === 'SendMessageBatch' && queue === host.results && silenced++ === 0 ? 'silence' : undefined,
    );
    const ids = host.send([lookup(0), lookup(1)]);
    await host.become('deleted', ids);

    expect(host.receives(ids)).toEqual([2, 2]);
    expect(host.pid()).toBe(pid);
    expect(host.printed()).toContain('"WRITE_FAILED"');
  });

  it.each(HOSTS)(
    '%s ends a run that does not end, answers the others meanwhile, and the message with an error',
    async (name) => {
      const host = await hosts.start(name, {
        models: MODELS,
        timeoutSeconds: 8,
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
});
