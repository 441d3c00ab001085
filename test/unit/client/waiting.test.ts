import { describe, expect, it } from '@jest/globals';
import { type Entry, type RequestsPerMessage, type Waiting, WaitingMessages } from '../../../client/packRequests.ts';

const MIB = 1_048_576;

function requestOf(name: string, perMessage: RequestsPerMessage, entry: Partial<Entry> = {}): Waiting {
  const plain = { body: name, bytes: 10, group: undefined, deduplicationId: undefined, containers: 1 };
  return { entry: { ...plain, ...entry }, perMessage, signal: undefined, resolve: () => {}, reject: () => {} };
}

function namesIn(messages: readonly (readonly Waiting[])[]): string[] {
  return messages.map((requests) => requests.map(({ entry }) => entry.body).join(''));
}

describe('requests that wait', () => {
  it('are a full call once so much waits for others that memory might run out', () => {
    const waiting = new WaitingMessages(true);
    const add = (group: string): void => waiting.add(requestOf(group, 10, { bytes: MIB, group }));
    for (const group of 'abcdefg') add(group);
    expect(waiting.isFull()).toBe(false);
    add('h');
    expect(waiting.isFull()).toBe(true);
    expect(namesIn(waiting.takeCall(false))).toEqual(['a']);
    expect(waiting.isFull()).toBe(false);
  });

  it('do not share a message with those that want other ones', () => {
    const waiting = new WaitingMessages(true);
    for (const [name, perMessage] of [
      ['a', 10],
      ['b', 10],
      ['c', 5],
      ['d', 10],
    ] as const) {
      waiting.add(requestOf(name, perMessage));
    }
    expect(namesIn(waiting.takeCall(true))).toEqual(['abd', 'c']);
  });

  it('are put back in front of the others, in messages that hold what the queue takes', () => {
    const waiting = new WaitingMessages(false);
    for (const name of 'abcdef') waiting.add(requestOf(name, 3));
    const [first = [], ...others] = waiting.takeCall(true);
    expect(namesIn([first, ...others])).toEqual(['abc', 'def']);
    for (const request of others.flat()) waiting.add(request);
    waiting.putBack(first, 23);
    expect(namesIn([1, 2, 3].flatMap(() => waiting.takeCall(true)))).toEqual(['ab', 'cd', 'ef']);
    expect(waiting.isEmpty()).toBe(true);
  });
});
