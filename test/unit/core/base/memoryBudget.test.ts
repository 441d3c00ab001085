import { describe, expect, it } from '@jest/globals';
import { createMemoryBudget, whenThere } from '../../../../lambda/core/concurrency.ts';
import { whatCanHappen } from '../../../helpers/manualClock.ts';

const NEVER = new AbortController().signal;

/** Asks for room, and notes who has been given it. */
function asking(total: number) {
  const room = createMemoryBudget(total);
  const admitted: number[] = [];
  const ask = (owner: number, bytes: number, signal = NEVER) =>
    void whenThere(room.acquire(owner, bytes, signal), () => admitted.push(owner));
  return { room, admitted, ask };
}

describe('room', () => {
  it('is given in the order of asking, as far as it goes', async () => {
    const { room, admitted, ask } = asking(10);
    ask(1, 6);
    ask(2, 6);
    ask(3, 1);
    await whatCanHappen();
    expect([admitted, room.isFull()]).toEqual([[1], true]);
    room.release(1);
    await whatCanHappen();
    expect([admitted, room.isFull()]).toEqual([[1, 2, 3], false]);
  });

  it('is given to what is larger than all there is once nothing else is held', async () => {
    const { room, admitted, ask } = asking(10);
    ask(1, 1);
    ask(2, 50);
    await whatCanHappen();
    expect(admitted).toEqual([1]);
    room.release(1);
    await whatCanHappen();
    expect(admitted).toEqual([1, 2]);
  });

  it('tells also of who began to wait before it was asked, once', async () => {
    const { room, ask } = asking(10);
    const told: string[] = [];
    ask(1, 10);
    ask(2, 1);
    await whatCanHappen();
    await room.nextWaiter();
    void room.nextWaiter().then(() => told.push('another waits'));
    await whatCanHappen();
    expect(told).toEqual([]);
    ask(3, 1);
    await whatCanHappen();
    expect(told).toEqual(['another waits']);
  });

  it('lets go who waits when time is up, and then admits those behind', async () => {
    const { room, admitted, ask } = asking(10);
    const deadline = new AbortController();
    ask(1, 8);
    ask(2, 5, deadline.signal);
    ask(3, 2);
    await whatCanHappen();
    expect(admitted).toEqual([1]);
    deadline.abort();
    await whatCanHappen();
    expect(admitted).toEqual([1, 2, 3]);
    room.release(2);
    room.release(3);
    ask(4, 3);
    await whatCanHappen();
    expect(admitted).toEqual([1, 2, 3]);
  });

  it('is available again when what is in memory anyway is released', async () => {
    const { room } = asking(10);
    const spared: string[] = [];
    room.hold(1, 8);
    await room.available(NEVER);
    room.hold(2, 8);
    void room.available(NEVER).then(() => spared.push('available'));
    await whatCanHappen();
    expect(spared).toEqual([]);
    room.release(1);
    await whatCanHappen();
    expect(spared).toEqual(['available']);
  });
});
