import { beforeAll, describe, expect, it } from '@jest/globals';
import { freePort } from '../helpers/freePort.ts';
import { HOSTS, type Host, useHosts } from '../helpers/hosts.ts';
import { identityModel, turningModel } from '../helpers/onnxModels.ts';
import { ENDLESS, LOOKUP, lookup } from '../helpers/worker.ts';

const hosts = useHosts();

const MODELS = {
  ...LOOKUP,
  'turns/1/model.onnx': turningModel(),
  'clock/1/model.onnx': identityModel('INT64', ['batch', 1]),
  'clock/config.json': { transform: 'transform.mjs' },
  // Answers with the number of turns that the event loop has had when the body was decoded.
  'clock/transform.mjs': `let turns = 0;
  let next;
  export function decode() {
    next ??= setImmediate(() => {
      turns += 1;
      next = undefined;
    });
    return [{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [turns] }];
  }`,
};

describe('5. The event loop stays free', () => {
  describe.each(HOSTS)('%s', (name) => {
    let host: Host;
    let port: number;
    beforeAll(async () => {
      port = await freePort();
      const environment = { BATCHSCORE_HEALTH_PORT: String(port), BATCHSCORE_WINDOW_SECONDS: '0.5' };
      host = await hosts.start(name, { models: MODELS, batchSize: 6_000, environment });
    });

    it.each([
      ['small ones', 6_000, '', 2_048],
      ['ones of 100 KiB', 30, ' '.repeat(100 * 1024), 6],
    ])('pauses decoding after some messages: %s', async (_, count, padding, most) => {
      const body = `${JSON.stringify({ model_name: 'clock' })}${padding}`;
      const answers = await host.answers(host.send(Array(count).fill(body)));

      const sizes = Array.from(
        Map.groupBy(answers, ({ outputs }) => outputs?.[0]?.data[0]).values(),
        (some) => some.length,
      );
      expect(Math.max(...sizes)).toBeLessThanOrEqual(most);
    });

    it('scores for other models, and answers whoever asks for its health, while a run goes on', async () => {
      const others = Array.from({ length: 20 }, (_, index) => lookup(index));
      const [endless = '', ...ids] = host.send([ENDLESS, ...others]);
      await host.answers(ids);

      if (name === 'the worker') expect((await fetch(`http://127.0.0.1:${port}/live`)).status).toBe(200);
      expect(host.printed()).not.toContain('left behind');
      expect(host.fates([endless])).toEqual(['in flight']);
    });
  });
});
