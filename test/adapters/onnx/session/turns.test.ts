import { describe, expect, it } from '@jest/globals';
import { createTurns } from '../../../../lambda/adapters/onnx/session/turns.ts';
import { deferred } from '../../../../lambda/core/base/deferred.ts';

describe('turns', () => {
  it('come one after the other, in the order they were asked for', async () => {
    const turns = createTurns();
    const events: string[] = [];
    const work = (name: string) => async () => {
      events.push(`${name} begins`);
      await null;
      events.push(`${name} ends`);
    };

    await Promise.all([turns.take(work('first')), turns.take(work('second')), turns.take(work('third'))]);

    expect(events).toEqual(['first', 'second', 'third'].flatMap((name) => [`${name} begins`, `${name} ends`]));
  });

  it('pass on after work that fails', async () => {
    const turns = createTurns();
    const failing = turns.take(async () => {
      throw new Error('broken');
    });
    const next = turns.take(async () => 'done');

    await expect(failing).rejects.toThrow('broken');
    expect(await next).toBe('done');
  });

  it('are not lost on those who withdraw in the very moment that the work before them is given up', async () => {
    const turns = createTurns();
    const controller = new AbortController();
    const { signal } = controller;
    const held = deferred<never>();
    signal.addEventListener('abort', () => held.reject(new Error('given up')));
    const first = turns.take(() => held.promise, signal);
    const withdrawn = turns.take(async () => 'started', signal);
    const next = turns.take(async () => 'done');

    controller.abort();

    await expect(first).rejects.toThrow('given up');
    await expect(withdrawn).rejects.toMatchObject({ name: 'RunAbandonedError', ranMs: undefined });
    expect(await next).toBe('done');
  });
});
