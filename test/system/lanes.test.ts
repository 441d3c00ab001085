import { expect, it } from '@jest/globals';
import type { Reply } from '../../lambda/core/replies.ts';
import { createLane } from '../../lambda/scorer/lanes.ts';
import { startChild } from '../../lambda/scorer/scorerChild.ts';
import { SLOW, slow } from '../helpers/hosts.ts';
import { afterThisTest, modelsDirectory } from '../helpers/openModels.ts';

const IDLE_MS = 100;
const MANY = { maxBatchElements: 1_000, maxAnswerCharacters: 1_000 };

it('ends an idle process, but none that is at work', async () => {
  const opening = {
    repository: { directory: await modelsDirectory(SLOW), preload: false },
    load: { maxBatchRows: 1, ...MANY, providers: ['cpu'], allowProviderFallback: false },
    limits: { maxRequestRows: 1, maxRequestsPerMessage: 1, deadlineMarginMs: 0, ...MANY },
    checkPercent: 0,
    hasPayloads: false,
    mismatches: [],
    broken: [],
    hasStages: false,
    isBackground: false,
  };
  const warn = (message: string): never => {
    throw new Error(message);
  };
  const lane = createLane(() => startChild(Number.POSITIVE_INFINITY).open({ opening, warn }), warn, {
    afterMs: IDLE_MS,
    begins() {},
  });
  afterThisTest(() => lane.close());
  const child = await lane.open(new AbortController().signal);
  if (child === undefined) throw new Error('expected a process, the lane is closed');
  const replies: Reply[] = [];
  const { lost } = child.score({
    bodies: [{ key: 'message', body: slow(10 * IDLE_MS) }],
    remainingMs: 60_000,
    isAlone: true,
    defaults: undefined,
    limitMs: () => 60_000,
    take: async (more) => void replies.push(...more),
    tell() {},
    readPayload: () => warn('no payload is there'),
    signal: new AbortController().signal,
  });

  expect(await lost).toBeUndefined();
  expect(replies).toMatchObject([{ of: 0, failures: [] }]);
  expect(await child.ended).toEqual({ how: 'was ended by SIGKILL', signal: 'SIGKILL' });
});
