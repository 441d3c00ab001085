import { beforeAll, describe, expect, it } from '@jest/globals';
import { createCapture } from '../../lambda/aws/capture.ts';
import { useS3Server } from '../helpers/awsServers.ts';
import { freePort } from '../helpers/command.ts';
import { type Answer, ENDLESS, HOSTS, type Host, LOOKUP, lookup, useHosts } from '../helpers/hosts.ts';
import { identityModel, turningModel } from '../helpers/onnxModels.ts';

const hosts = useHosts();
const s3 = useS3Server();

const MODELS = {
  ...LOOKUP,
  'turns/1/model.onnx': turningModel(),
  'clock/1/model.onnx': identityModel('INT64', ['batch', 1]),
  'clock/config.json': { transform: 'transform.mjs' },
  // Answers with the number of turns that the event loop has had when the body was decoded.
  'clock/transform.mjs': `let turns = 0;
  let left = 0;
  const turn = () => {
    turns += 1;
    if (--left > 0) setImmediate(turn);
  };
  export function decode() {
    if (left <= 0) setImmediate(turn);
    left = 1_000;
    return [{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [turns] }];
  }`,
};
const CLOCK = JSON.stringify({ model_name: 'clock' });

/** The most of these that were decoded in one turn. */
function maxInATurn(answers: readonly Answer[]): number {
  const turns = Map.groupBy(answers, ({ outputs }) => outputs?.[0]?.data[0]);
  return Math.max(...Array.from(turns.values(), (some) => some.length));
}

describe('5. The event loop stays free', () => {
  describe.each(HOSTS)('%s', (name) => {
    let host: Host;
    let port: number;
    beforeAll(async () => {
      port = await freePort();
      const environment = { BATCHSCORE_HEALTH_PORT: String(port), BATCHSCORE_WINDOW_SECONDS: '0.5' };
      host = await hosts.start(name, { models: MODELS, timeoutSeconds: 60, environment });
    });

    it('pauses between large messages while it decodes them', async () => {
      const ids = host.send(Array(30).fill(`${CLOCK}${' '.repeat(100 * 1024)}`));

      expect(maxInATurn(await host.answers(ids))).toBeLessThanOrEqual(6);
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

  it.each([
    ['of which few have a transform', 50, 20],
    ['whose transform answers at once', 1, 512],
  ])('the function pauses after some hundred small messages, %s', async (_, every, max) => {
    const host = await hosts.start('the function', { models: MODELS, batchSize: 2_000, timeoutSeconds: 60 });
    const ids = host.send(Array.from({ length: 2_000 }, (_, index) => (index % every === 0 ? CLOCK : lookup(index))));

    const clocks = await host.answers(ids.filter((_, index) => index % every === 0));
    // 256 messages a turn, and what is decoded while others wait.
    expect(maxInATurn(clocks)).toBeLessThanOrEqual(max);
  });

  it('pauses between large messages while it makes samples of them', async () => {
    let turn = 0;
    const readAt: number[] = [];
    const body = JSON.stringify({ inputs: [], note: 'x'.repeat(64 * 1024) });
    const message = (index: number) => ({
      messageId: `${index}`,
      get body() {
        readAt.push(turn);
        return body;
      },
      answer: `{"message_id":"${index}","model_name":"lookup","predictions":[1]}`,
    });
    const counts = { kept: 0, lost: 0 };
    const capture = createCapture({
      s3: s3.client(),
      bucket: await s3.bucket(),
      percent: 100,
      observer: { captured: ({ kept, lost }) => void Object.assign(counts, { kept, lost }) },
      warn: () => {},
    });
    for (let index = 0; index < 60; index++) capture.take(message(index));
    readAt.length = 0;
    const nextTurn = () => {
      turn += 1;
      if (counts.kept === 0) setImmediate(nextTurn);
    };
    nextTurn();
    await capture.flush();

    expect(counts).toEqual({ kept: 60, lost: 0 });
    const inATurn = Map.groupBy(readAt, (at) => at);
    expect(Math.max(...Array.from(inATurn.values(), ({ length }) => length))).toBeLessThanOrEqual(5);
  });
});
