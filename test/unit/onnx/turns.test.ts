import { describe, expect, it } from '@jest/globals';
import { createTurns } from '../../../lambda/onnx/session.ts';

describe('turns', () => {
  it('come at several places at the same time, the first that is free', async () => {
    const turns = createTurns(2);
    const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    const places: number[] = [];
    const take = (work: Promise<string>, wanted?: number) =>
      turns.take(
        (place) => {
          places.push(place);
          return work;
        },
        undefined,
        wanted,
      );

    const all = [take(first.promise), take(second.promise), take(Promise.resolve('third'))];
    const onFirst = take(Promise.resolve('on the first'), 0);
    second.resolve('second');

    expect(await Promise.all(all.slice(1))).toEqual(['second', 'third']);
    expect(places).toEqual([0, 1, 1]);
    first.resolve('first');
    expect(await onFirst).toBe('on the first');
    expect(places).toEqual([0, 1, 1, 0]);
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
    const held = Promise.withResolvers<never>();
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
