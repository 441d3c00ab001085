import { describe, expect, it } from '@jest/globals';
import { createWaitingMessages, type Entry, type Packing, type Waiting } from '../../../client/packRequests.ts';

const MIB = 1_048_576;

interface Some {
  readonly name: string;
  readonly bytes?: number;
  readonly group?: string;
  readonly packing?: Packing;
}

const TEN: Packing = { requests: 10, bytes: () => 1_000 };

function requestOf({ name, bytes = 10, group, packing = TEN }: Some): Waiting {
  const entry: Entry = {
    body: name,
    bytes,
    attributes: undefined,
    group,
    deduplicationId: undefined,
    containers: 1,
    payload: undefined,
  };
  return { entry, packing, signal: undefined, resolve: () => {}, reject: () => {} };
}

function namesIn(messages: readonly (readonly Waiting[])[]): string[] {
  return messages.map((requests) => requests.map(({ entry }) => entry.body).join(''));
}

function waitingWith(names: string, some: Omit<Some, 'name'> = {}) {
  const waiting = createWaitingMessages();
  for (const name of names) waiting.add(requestOf({ name, ...some }));
  return waiting;
}

describe('requests that wait', () => {
  it('are a full call once ten messages take no more', () => {
    const waiting = waitingWith('a'.repeat(99));
    expect(waiting.isFull(MIB)).toBe(false);
    waiting.add(requestOf({ name: 'b' }));
    expect(waiting.isFull(MIB)).toBe(true);
    expect(namesIn(waiting.takeCall(MIB, true))).toHaveLength(10);
    expect([waiting.isEmpty(), waiting.isFull(MIB)]).toEqual([true, false]);
  });

  it('are a full call once so much waits for others that memory might run out', () => {
    const packing = { requests: 10, bytes: () => 4 * MIB };
    const waiting = createWaitingMessages();
    const add = (group: string): void => waiting.add(requestOf({ name: group, bytes: 2 * MIB, group, packing }));
    for (const group of 'abc') add(group);
    expect(waiting.isFull(MIB)).toBe(false);
    add('d');
    expect(waiting.isFull(MIB)).toBe(true);
    expect(namesIn(waiting.takeCall(MIB, false))).toEqual(['a']);
  });

  it('leave in calls of so many bytes', () => {
    const waiting = waitingWith('abc', { bytes: 600, packing: { requests: 10, bytes: () => 600 } });
    expect([waiting.isFull(1_201), waiting.isFull(1_200)]).toEqual([false, true]);
    expect(namesIn(waiting.takeCall(1_200, true))).toEqual(['a', 'b']);
    expect(namesIn(waiting.takeCall(1_200, true))).toEqual(['c']);
  });

  it('may join a message until its brackets and commas are all that fits', () => {
    const exactly = { requests: 10, bytes: () => 3 * 10 + 2 + 2 };
    expect(namesIn(waitingWith('abcd', { packing: exactly }).takeCall(MIB, true))).toEqual(['abc', 'd']);
    const oneLess = { requests: 10, bytes: () => 3 * 10 + 2 + 1 };
    expect(namesIn(waitingWith('abcd', { packing: oneLess }).takeCall(MIB, true))).toEqual(['ab', 'cd']);
  });

  it('stay in a message that could take more, unless all are to leave', () => {
    const waiting = waitingWith('a');
    for (const name of 'bcdefghijkl') waiting.add(requestOf({ name, group: 'other' }));
    expect(namesIn(waiting.takeCall(MIB, false))).toEqual(['bcdefghijk']);
    expect(namesIn(waiting.takeCall(MIB, false))).toEqual([]);
    expect(namesIn(waiting.takeCall(MIB, true))).toEqual(['a', 'l']);
  });

  it('do not join a message that has left', () => {
    const waiting = waitingWith('ab');
    expect(namesIn(waiting.takeCall(MIB, true))).toEqual(['ab']);
    waiting.add(requestOf({ name: 'c' }));
    expect(namesIn(waiting.takeCall(MIB, true))).toEqual(['c']);
  });

  it('do not share a message with those that want other ones', () => {
    const waiting = waitingWith('ab');
    waiting.add(requestOf({ name: 'c', packing: { requests: 5, bytes: () => 1_000 } }));
    waiting.add(requestOf({ name: 'd' }));
    expect(namesIn(waiting.takeCall(MIB, true))).toEqual(['abd', 'c']);
  });

  it('are put back in front of the others, in messages that hold what a message holds by now', () => {
    let bytes = 1_000;
    const waiting = waitingWith('abcdef', { packing: { requests: 3, bytes: () => bytes } });
    const [first = []] = waiting.takeCall(33, true);
    expect(namesIn([first])).toEqual(['abc']);
    bytes = 23;
    waiting.putBack(first);
    expect(namesIn(waiting.takeCall(MIB, true))).toEqual(['ab', 'cd', 'ef']);
    expect(waiting.isEmpty()).toBe(true);
  });
});
