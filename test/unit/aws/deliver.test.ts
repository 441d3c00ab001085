import { describe, expect, it } from '@jest/globals';
import { deliver, deliverOrOffload, writeToEvery } from '../../../lambda/aws/sendBatches.ts';
import type { WriteVerdict } from '../../../lambda/core/record.ts';

import { memoryWriter } from '../../helpers/scoring.ts';

const NEVER = new AbortController().signal;
const WRITTEN: WriteVerdict = { written: true };
/** More than a function takes as arguments: what is spread into a call throws. */
const VERY_MANY = 300_000;
const entries = Array.from({ length: VERY_MANY }, (_, index) => index);

function countWritten(verdicts: readonly WriteVerdict[]): number {
  return verdicts.filter((verdict) => 'written' in verdict).length;
}

describe('very many results at once', () => {
  it('are more than a function takes as arguments', () => {
    expect(() => Math.max(...entries)).toThrow(RangeError);
  });

  it('are delivered, even if the store refuses all of them once', async () => {
    let attempts = 0;
    const attempt = async (left: readonly number[]) => {
      attempts += 1;
      return attempts === 1 ? left.map((entry) => ({ entry, reason: 'busy', again: true })) : [];
    };

    const verdicts = await deliver(entries, {
      store: 'any',
      pack: (all) => [all],
      attempt,
      signal: NEVER,
      retry: { random: () => 0 },
    });

    expect([attempts, countWritten(verdicts)]).toEqual([2, VERY_MANY]);
  });

  it('are delivered beside what is offloaded', async () => {
    const verdicts = await deliverOrOffload(entries, {
      fits: (entry) => entry > 0,
      offload: async (entry) => entry,
      deliver: async (left) => left.map(() => WRITTEN),
    });

    expect(countWritten(verdicts)).toBe(VERY_MANY);
  });

  it('are written to every store', async () => {
    const results = entries.map((entry) => ({ messageId: `m${entry}`, body: '{}', messageGroupId: undefined }));

    expect(countWritten(await writeToEvery([memoryWriter(), memoryWriter()]).write(results, NEVER))).toBe(VERY_MANY);
  });
});

describe('a delivery whose time is up', () => {
  it('says what the store said before, not that the last attempt was aborted', async () => {
    const aborting = new AbortController();
    const refusal = (reason: string) => [{ entry: 'a', reason, again: true }];
    const answers = [
      async () => refusal('busy'),
      () =>
        new Promise<ReturnType<typeof refusal>>((resolve) => {
          aborting.signal.addEventListener('abort', () => resolve(refusal('aborted')));
          aborting.abort();
        }),
    ];
    const attempt = async () => (await answers.shift()?.()) ?? [];

    const verdicts = await deliver(['a'], {
      store: 'any',
      attempt,
      signal: aborting.signal,
      retry: { random: () => 0 },
    });

    expect(verdicts).toMatchObject([{ code: 'WRITE_FAILED', message: 'any: busy' }]);
  });
});
