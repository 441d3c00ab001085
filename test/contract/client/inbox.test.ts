import { describe, expect, it } from '@jest/globals';
import { type Arrival, Inbox } from '../../../client/inbox.ts';
import { ScoringError } from '../../../client/index.ts';

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
    const inbox = new Inbox();
    const waiting = inbox.waitFor(ids(1000), ALIVE);
    for (const messageId of ids(200)) expect(inbox.deliver(arrivalOf(messageId))).toBe(true);
    expect(inbox.wanted()).toEqual([]);
    expect(inbox.isWanting()).toBe(false);
    expect(inbox.stateOf('m-200')).toBe('full');
    const demanded = inbox.demand();

    await waiting.next();
    await expect(demanded).resolves.toBe(true);
    expect(inbox.wanted()).toHaveLength(800);
    expect(inbox.stateOf('m-200')).toBe('wanted');
  });

  it('gives what came before the end of the wait, and then the reason of the end', async () => {
    const inbox = new Inbox();
    const ended = new AbortController();
    const waiting = inbox.waitFor(ids(2), ended.signal);
    const arrival = arrivalOf('m-0');
    inbox.deliver(arrival);
    ended.abort(new Error('enough'));
    await expect(waiting.next()).resolves.toBe(arrival);
    await expect(waiting.next()).rejects.toThrow('enough');
    expect(inbox.deliver(arrivalOf('m-1'))).toBe(false);
  });

  it('remembers the latest ten thousand IDs that are dismissed, unless they are waited for again', () => {
    const inbox = new Inbox();
    for (const messageId of ids(10_001)) inbox.dismiss(messageId);
    expect(inbox.stateOf('m-0')).toBe('unknown');
    expect(inbox.stateOf('m-1')).toBe('dismissed');
    const waiting = inbox.waitFor(['m-1'], ALIVE);
    expect(inbox.stateOf('m-1')).toBe('wanted');
    waiting.close();
    expect(inbox.stateOf('m-1')).toBe('unknown');
  });
});

describe('an inbox, of a packed message,', () => {
  /** An arrival that answers so many requests. */
  function packedOf(messageId: string, requests: number) {
    const results = Array.from({ length: requests }, () => ({ messageId, predictions: [] }));
    return { ...arrivalOf(messageId), result: { messageId, results } };
  }

  it('has the store keep what one of them left, and drop it when the last has its own', async () => {
    const inbox = new Inbox();
    const [leaving, staying] = [inbox.waitFor(['m/0'], ALIVE), inbox.waitFor(['m/1'], ALIVE)];
    const [first, again] = [packedOf('m', 2), packedOf('m', 2)];
    inbox.deliver(first);
    leaving.close();
    (await staying.next()).accept();
    expect([first.fate, inbox.stateOf('m')]).toEqual([['given back'], 'unknown']);
    const late = inbox.waitFor(['m/0'], ALIVE);
    inbox.deliver(again);
    (await late.next()).accept();
    expect(again.fate).toEqual(['accepted']);
  });

  it('has the store drop the error of the whole message when all who wait for some of it have it', async () => {
    const inbox = new Inbox();
    const waiting = inbox.waitFor(['m/0', 'm/1'], ALIVE);
    const error = new ScoringError('TOO_MANY_REQUESTS', 'expected fewer', { messageId: 'm' });
    const arrival = { ...arrivalOf('m'), result: { messageId: 'm', error } };
    inbox.deliver(arrival);
    for (const messageId of ['m/0', 'm/1']) {
      const share = await waiting.next();
      expect(share.result).toMatchObject({ messageId, error: { code: 'TOO_MANY_REQUESTS', messageId } });
      share.accept();
    }
    expect(arrival.fate).toEqual(['accepted']);
  });

  it('takes for wanted what one caller has room for, though another has none', () => {
    const inbox = new Inbox();
    inbox.waitFor([...ids(200), 'm/0'], ALIVE);
    for (const messageId of ids(200)) inbox.deliver(arrivalOf(messageId));
    expect(inbox.stateOf('m')).toBe('full');
    inbox.waitFor(['m/1'], ALIVE);
    expect(inbox.stateOf('m')).toBe('wanted');
  });

  it('drops it once every request is dismissed, as far as it knows how many there are', () => {
    const inbox = new Inbox();
    inbox.dismiss('m/0');
    inbox.dismiss('m/1');
    expect(inbox.stateOf('m')).toBe('unknown');
    inbox.dismiss('n/1', 2);
    expect(inbox.stateOf('n')).toBe('unknown');
    inbox.dismiss('n/0', 2);
    expect(inbox.stateOf('n')).toBe('dismissed');
    inbox.waitFor(['n/1'], ALIVE).close();
    expect(inbox.stateOf('n')).toBe('unknown');
  });

  it('lets a request be waited for once', () => {
    const inbox = new Inbox();
    inbox.waitFor(['m/0'], ALIVE);
    inbox.waitFor(['m', 'm/1'], ALIVE);
    expect(() => inbox.waitFor(['m/2', 'm/0'], ALIVE)).toThrow('m/0 is being collected already');
    inbox.waitFor(['m/2'], ALIVE);
  });
});
