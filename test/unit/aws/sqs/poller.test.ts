import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { createPoller } from '../../../../lambda/aws/requestQueue.ts';

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

function polling({
  hasRoom = () => true,
  waitMs = 0,
}: {
  hasRoom?: (expected: number) => boolean;
  waitMs?: number;
} = {}) {
  const inFlight: PromiseWithResolvers<string[]>[] = [];
  const errors: unknown[] = [];
  const poller = createPoller({
    receive: () => {
      const poll = Promise.withResolvers<string[]>();
      inFlight.push(poll);
      return poll.promise;
    },
    recordsAPoll: 2,
    hasRoom,
    take: () => {},
    onError: (error) => errors.push(error),
    maxPolls: 8,
    pauseMs: (failures) => 1000 * failures,
    waitMs,
  });
  async function settle(answer: (poll: PromiseWithResolvers<string[]>) => void): Promise<void> {
    for (const poll of inFlight.splice(0)) answer(poll);
    await jest.advanceTimersByTimeAsync(0);
  }
  return {
    poller,
    inFlight,
    errors,
    answer: (count: number) => settle((poll) => poll.resolve(Array<string>(count).fill('record'))),
    fail: () => settle((poll) => poll.reject(new Error('connection refused'))),
  };
}

describe('createPoller', () => {
  it('asks an idle queue with one poll at a time', async () => {
    const { poller, inFlight, answer } = polling();

    poller.poll();
    await answer(0);
    await answer(0);

    expect(inFlight).toHaveLength(1);
  });

  it('adds polls while they come back full, up to eight, and gives them up when they come back empty', async () => {
    const { poller, inFlight, answer } = polling();

    poller.poll();
    await answer(2);
    expect(inFlight).toHaveLength(2);
    for (let round = 0; round < 5; round += 1) await answer(2);
    expect(inFlight).toHaveLength(8);
    await answer(0);

    expect(inFlight).toHaveLength(1);
  });

  it('starts no poll without room for what those in flight may bring', async () => {
    let room = 4;
    const { poller, inFlight, answer } = polling({ hasRoom: (expected) => expected < room });

    poller.poll();
    await answer(2);
    await answer(2);
    expect(inFlight).toHaveLength(2);
    room = 0;
    await answer(2);
    expect(inFlight).toHaveLength(0);
    room = 2;
    poller.poll();

    expect(inFlight).toHaveLength(1);
  });

  it('pauses for a second after a failed poll, and then tries with one', async () => {
    const { poller, inFlight, errors, answer, fail } = polling();

    poller.poll();
    await answer(2);
    await fail();
    poller.poll();
    expect(errors).toHaveLength(2);
    expect(inFlight).toHaveLength(0);
    await jest.advanceTimersByTimeAsync(999);
    expect(inFlight).toHaveLength(0);
    await jest.advanceTimersByTimeAsync(1);

    expect(inFlight).toHaveLength(1);
  });

  it('pauses for longer each time that nothing received is answered, until something is', async () => {
    const { poller, inFlight, answer } = polling();

    poller.poll();
    for (const seconds of [1, 2, 3]) {
      poller.pause();
      // Another batch of the same time.
      poller.pause();
      await answer(2);
      await jest.advanceTimersByTimeAsync(1000 * seconds - 1);
      expect(inFlight).toHaveLength(0);
      await jest.advanceTimersByTimeAsync(1);
      expect(inFlight.length).toBeGreaterThan(0);
    }
    poller.pause();
    await answer(0);
    poller.goOn();
    expect(inFlight).toHaveLength(1);
    poller.pause();
    await answer(0);
    await jest.advanceTimersByTimeAsync(1_000);

    expect(inFlight).toHaveLength(1);
  });

  it('pauses where many polls in a row come back empty at once, though they were to wait', async () => {
    const { poller, inFlight, answer } = polling({ waitMs: 20_000 });

    poller.poll();
    for (let round = 0; round < 5; round += 1) await answer(0);
    await jest.advanceTimersByTimeAsync(15_000);
    for (let round = 0; round < 11; round += 1) await answer(0);
    expect(inFlight).toHaveLength(1);
    await answer(0);
    expect(inFlight).toHaveLength(0);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(inFlight).toHaveLength(1);
    await answer(2);
    expect(inFlight).toHaveLength(2);
  });

  it('stops when the polls in flight have returned, be it with an error', async () => {
    const { poller, inFlight, answer, fail } = polling();
    let stops = 0;

    poller.poll();
    await answer(2);
    const stopped = poller.stop().then(() => {
      stops += 1;
    });
    await jest.advanceTimersByTimeAsync(0);
    expect(stops).toBe(0);
    await fail();
    await stopped;

    expect(inFlight).toHaveLength(0);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('stops at once during a pause', async () => {
    const { poller, inFlight, fail } = polling();

    poller.poll();
    await fail();
    await poller.stop();

    expect(inFlight).toHaveLength(0);
    expect(jest.getTimerCount()).toBe(0);
  });
});
