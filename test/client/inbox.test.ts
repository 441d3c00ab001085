import { describe, expect, it } from '@jest/globals';
import { type Arrival, createInbox } from '../../client/receive/inbox.ts';

const ALIVE = new AbortController().signal;

/** An arrival that remembers what became of it. */
function arrivalOf(messageId: string): Arrival & { readonly fate: string[] } {
  const fate: string[] = [];
  return {
    fate,
    result: { messageId, predictions: [] },
    accept: () => fate.push('accepted'),
    giveBack: () => fate.push('given back'),
  };
}

/** Message IDs from `m-0` on. */
function ids(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `m-${index}`);
}

describe('an inbox', () => {
  it('wants no more for a caller that leaves two hundred results waiting, until it takes one', async () => {
    const inbox = createInbox();
    const waiting = inbox.waitFor(ids(1000), ALIVE);
    for (const messageId of ids(200)) expect(inbox.deliver(arrivalOf(messageId))).toBe(true);
    expect(inbox.wanted()).toEqual([]);
    expect(inbox.isWanting()).toBe(false);
    expect(inbox.standing('m-200')).toBe('full');
    const demanded = inbox.demand();

    await waiting.next();
    await expect(demanded).resolves.toBe(true);
    expect(inbox.wanted()).toHaveLength(800);
    expect(inbox.standing('m-200')).toBe('wanted');
  });

  it('wants for other callers while one is full', () => {
    const inbox = createInbox();
    inbox.waitFor(ids(201), ALIVE);
    for (const messageId of ids(200)) inbox.deliver(arrivalOf(messageId));
    inbox.waitFor(['other'], ALIVE);
    expect(inbox.wanted()).toEqual(['other']);
  });

  it('gives what came before the end of the wait, and then the reason of the end', async () => {
    const inbox = createInbox();
    const ended = new AbortController();
    const waiting = inbox.waitFor(ids(2), ended.signal);
    const arrival = arrivalOf('m-0');
    inbox.deliver(arrival);
    ended.abort(new Error('enough'));
    await expect(waiting.next()).resolves.toBe(arrival);
    await expect(waiting.next()).rejects.toThrow('enough');
    expect(inbox.deliver(arrivalOf('m-1'))).toBe(false);
  });

  it('takes a result once, and knows the second as held until it is taken', async () => {
    const inbox = createInbox();
    const waiting = inbox.waitFor(['m-0'], ALIVE);
    expect(inbox.deliver(arrivalOf('m-0'))).toBe(true);
    expect(inbox.standing('m-0')).toBe('held');
    expect(inbox.deliver(arrivalOf('m-0'))).toBe(false);
    await waiting.next();
    expect(inbox.standing('m-0')).toBe('unknown');
  });

  it('gives back what its caller did not take', async () => {
    const inbox = createInbox();
    const waiting = inbox.waitFor(ids(2), ALIVE);
    const [taken, left] = [arrivalOf('m-0'), arrivalOf('m-1')];
    inbox.deliver(taken);
    inbox.deliver(left);
    await waiting.next();
    waiting.close();
    expect([taken.fate, left.fate]).toEqual([[], ['given back']]);
    expect(inbox.standing('m-1')).toBe('unknown');
  });

  it('remembers the latest ten thousand IDs that are dismissed, unless they are waited for again', () => {
    const inbox = createInbox();
    for (const messageId of ids(10_001)) inbox.dismiss(messageId);
    expect(inbox.standing('m-0')).toBe('unknown');
    expect(inbox.standing('m-1')).toBe('dismissed');
    const waiting = inbox.waitFor(['m-1'], ALIVE);
    expect(inbox.standing('m-1')).toBe('wanted');
    waiting.close();
    expect(inbox.standing('m-1')).toBe('unknown');
  });

  it('ends every wait, begun before or after, when it is closed', async () => {
    const inbox = createInbox();
    const before = inbox.waitFor(['a'], ALIVE);
    inbox.close(new Error('closed'));
    await expect(before.next()).rejects.toThrow('closed');
    await expect(inbox.waitFor(['b'], ALIVE).next()).rejects.toThrow('closed');
  });
});
