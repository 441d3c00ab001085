import { describe, expect, it } from '@jest/globals';
import { ENDLESS, HOSTS, LOOKUP, lookup, TOO_MANY_ENDLESS, useHosts } from '../helpers/hosts.ts';
import { turningModel } from '../helpers/onnxModels.ts';

const hosts = useHosts(2);
const MODELS = { ...LOOKUP, 'turns/1/model.onnx': turningModel() };
const SHORT = ENDLESS.replace('4000000000000', '3');

describe('4. No run is started that is not expected to finish', () => {
  it('the function writes nothing when too little time is left, and hands everything back', async () => {
    const host = await hosts.start('the function', { models: LOOKUP, timeoutSeconds: 1 });
    const ids = host.send([lookup(0), lookup(1)]);
    await host.become('dead', ids);

    expect(host.receives(ids)).toEqual([5, 5]);
    expect(host.written()).toEqual([]);
    expect(host.printed()).toContain('"DEADLINE"');
  });

  it.each(HOSTS)(
    '%s leaves a run behind that does not end, opens the model anew, and answers the message when it comes again',
    async (name) => {
      const host = await hosts.start(name, {
        models: MODELS,
        timeoutSeconds: 10,
        environment: { BATCHSCORE_DEADLINE_MARGIN_MS: '500' },
      });
      const [endless = '', ...others] = host.send([ENDLESS, lookup(0), lookup(1)]);
      await host.become('deleted', others);
      const short = host.send([SHORT]);

      expect(await host.answers(short)).toMatchObject([{ outputs: [{ data: [3] }] }]);
      await host.become('deleted', short);
      await host.says('was left behind');
      if (name === 'the function') await host.says('"HostsEnded"');
      await host.become('deleted', [endless]);
      expect(await host.answers([endless])).toMatchObject([{ code: 'RUN_TIMED_OUT' }]);
      expect(host.written()).toHaveLength(4);
      expect(host.receives(others)).toEqual([1, 1]);
    },
    180_000,
  );

  it('the worker ends itself once runs that were left behind hold more than half of its cores', async () => {
    const host = await hosts.start('the worker', { models: MODELS, timeoutSeconds: 10 });
    host.send(TOO_MANY_ENDLESS);

    await host.says('"HostsEnded"');
  }, 180_000);
});
