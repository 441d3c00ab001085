import { describe, expect, it } from '@jest/globals';
import { createPool } from '../../../lambda/onnx/session.ts';

describe('a pool of slots', () => {
  it('does work in several slots at the same time, in the first that is free', async () => {
    const pool = createPool(2);
    const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    const slots: number[] = [];
    const take = (work: Promise<string>, wanted?: number) =>
      pool.run(
        (slot) => {
          slots.push(slot);
          return work;
        },
        undefined,
        wanted,
      );

    const all = [take(first.promise), take(second.promise), take(Promise.resolve('third'))];
    const onFirst = take(Promise.resolve('on the first'), 0);
    second.resolve('second');

    expect(await Promise.all(all.slice(1))).toEqual(['second', 'third']);
    expect(slots).toEqual([0, 1, 1]);
    first.resolve('first');
    expect(await onFirst).toBe('on the first');
    expect(slots).toEqual([0, 1, 1, 0]);
  });

  it('passes a slot on after work that fails', async () => {
    const pool = createPool();
    const failing = pool.run(async () => {
      throw new Error('broken');
    });
    const next = pool.run(async () => 'done');

    await expect(failing).rejects.toThrow('broken');
    expect(await next).toBe('done');
  });

  it('are not lost on those who withdraw in the very moment that the work before them is given up', async () => {
    const pool = createPool();
    const controller = new AbortController();
    const { signal } = controller;
    const held = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => held.reject(new Error('given up')));
    const first = pool.run(() => held.promise, signal);
    const withdrawn = pool.run(async () => 'started', signal);
    const next = pool.run(async () => 'done');

    controller.abort();

    await expect(first).rejects.toThrow('given up');
    await expect(withdrawn).rejects.toMatchObject({ name: 'RunWithdrawnError' });
    expect(await next).toBe('done');
  });
});
