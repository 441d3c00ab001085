import { describe, expect, it } from '@jest/globals';
import { type Entry, splitMessage, type Waiting, WaitingMessages } from '../../../client/packRequests.ts';

function requestOf(name: string, perMessage: number, entry: Partial<Entry> = {}): Waiting {
  const plain = { body: name, bytes: 10, group: undefined, deduplicationId: undefined, mayShare: true };
  return { entry: { ...plain, ...entry }, perMessage, signal: undefined, resolve: () => {}, reject: () => {} };
}

function namesIn(messages: readonly (readonly Waiting[])[]): string[] {
  return messages.map((requests) => requests.map(({ entry }) => entry.body).join(''));
}

describe('requests that wait', () => {
  it('are a full call once so much waits for others that memory might run out', () => {
    const waiting = new WaitingMessages(0);
    const add = (group: number): void => waiting.add(requestOf('a', 10, { bytes: 65_536, group: String(group) }));
    for (let group = 1; group < 128; group++) add(group);
    expect(waiting.isFull()).toBe(false);
    add(128);
    expect(waiting.isFull()).toBe(true);
    expect(namesIn(waiting.takeCall(false))).toEqual(Array(10).fill('a'));
    expect(waiting.isFull()).toBe(false);
  });

  it('do not share a message with those that want other ones', () => {
    const waiting = new WaitingMessages(0);
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

  it('are split into messages that hold what the queue takes', () => {
    const requests = Array.from('abcdef', (name) => requestOf(name, 6, name === 'e' ? { bytes: 50 } : {}));
    expect(namesIn(splitMessage(requests, 23))).toEqual(['ab', 'cd', 'e', 'f']);
  });
});
