import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { ENDLESS, HOSTS, LOOKUP, lookup, useHosts } from '../helpers/hosts.ts';
import { lookupModel, turningModel } from '../helpers/onnxModels.ts';

const hosts = useHosts(2);

const MODELS = {
  ...LOOKUP,
  'turns/1/model.onnx': turningModel(),
  'killer/1/model.onnx': lookupModel(),
  'killer/config.json': { transform: 'transform.mjs' },
  // Ends the process for one request, as a crash in native code does.
  'killer/transform.mjs': `export function decode({ index }) {
    if (index < 0) process.abort();
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }];
  }`,
};
const killer = (index: number) => JSON.stringify({ model_name: 'killer', index });
const turns = (count: number) => ENDLESS.replace('4000000000000', String(count));

const CULPRITS: readonly (readonly [what: string, culprit: string, neighbour: (index: number) => string])[] = [
  ['hangs its model', ENDLESS, turns],
  ['ends the process', killer(-1), (index) => killer(index % 3)],
];

describe('2. A message can only fail itself', () => {
  describe.each(HOSTS)('%s', (name) => {
    it.each(CULPRITS)(
      'leaves a message that %s to the dead letters, alone, where memory does not hold its model twice',
      async (_, culprit, neighbour) => {
        // Too little to hold a model twice.
        const environment = { BATCHSCORE_DEADLINE_MARGIN_MS: '500', AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '200' };
        const host = await hosts.start(name, { models: MODELS, timeoutSeconds: 4, environment });
        const neighbours = Array.from({ length: 20 }, (__, index) => neighbour(index));
        const [bad = '', ...good] = host.send([culprit, ...neighbours, ...[0, 1, 2].map(lookup)]);
        // A poll that is open while it is tried for the third time or more may bring what is then lost with it.
        const state = () => [...host.fates([bad]), ...host.receives([bad])];
        let endedPolls = 0;
        hosts.intercept(async ({ operation, queue }) => {
          const [fate, receives] = state();
          const isHeld = fate === 'in flight' && Number(receives) >= 3;
          if (!isHeld || operation !== 'ReceiveMessage' || queue !== host.requests) return;
          await setTimeout(500);
          if (String(state()) !== String([fate, receives])) endedPolls += 1;
          return undefined;
        });
        await host.become('dead', [bad]);

        await host.become('deleted', good);
        if (name === 'the worker' && culprit !== ENDLESS) expect(endedPolls).toBe(0);
        expect(host.receives([bad])).toEqual([5]);
        await host.says('redelivered messages are scored in this process');
        const answered = new Set(host.written().map(({ message_id }) => message_id));
        expect(answered).toEqual(new Set(good));
        // Those of other models are answered at once, but where the process ends with all that it holds.
        if (culprit === ENDLESS) expect(host.receives(good.slice(-3))).toEqual([1, 1, 1]);
      },
      180_000,
    );
  });
});
