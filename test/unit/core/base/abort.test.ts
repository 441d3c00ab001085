import { describe, expect, it } from '@jest/globals';
import { raceAbort, waitOrAbort } from '../../../../lambda/core/concurrency.ts';

const NEVER = new Promise<never>(() => {});

describe('work that may be left behind', () => {
  it.each(['before', 'meanwhile'])('is waited for no longer when the signal is aborted %s', async (when) => {
    const controller = new AbortController();
    if (when === 'before') controller.abort(new Error('over'));
    const both = Promise.allSettled([waitOrAbort(NEVER, controller.signal), raceAbort(NEVER, controller.signal)]);
    controller.abort(new Error('over'));
    expect(await both).toEqual([
      { status: 'fulfilled', value: undefined },
      { status: 'rejected', reason: new Error('over') },
    ]);
  });

  it('gives what it came to, or why it failed, where that is first', async () => {
    const { signal } = new AbortController();
    expect(await raceAbort(Promise.resolve(7), signal)).toBe(7);
    await expect(raceAbort(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed');
    await expect(waitOrAbort(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed');
  });
});
