import { describe, expect, it } from '@jest/globals';
import { Inbox } from '../../../client/inbox.ts';
import { ScoringError } from '../../../client/index.ts';
import type { PackedResult, SingleResult } from '../../../client/readResult.ts';

const ALIVE = new AbortController().signal;

function resultOf(messageId: string): SingleResult {
  return { messageId, predictions: [] };
}

/** Message IDs from `m-0` on. */
function ids(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `m-${index}`);
}

describe('an inbox', () => {
  it('wants no more for a caller that leaves two hundred results waiting, until it takes one', async () => {
    const inbox = new Inbox();
    const waiting = inbox.waitFor(ids(1000), ALIVE);
    for (const messageId of ids(200)) inbox.deliver(resultOf(messageId));
    expect(inbox.wanted()).toEqual([]);
    expect(inbox.isWanting()).toBe(false);
    let told = 0;
    inbox.onWanted(() => {
      told += 1;
    });

    await waiting.next();
    expect(told).toBe(1);
    expect(inbox.wanted()).toHaveLength(800);
  });

  it('gives what came before the end of the wait, and then the reason of the end', async () => {
    const inbox = new Inbox();
    const ended = new AbortController();
    const waiting = inbox.waitFor(ids(2), ended.signal);
    const result = resultOf('m-0');
    inbox.deliver(result);
    ended.abort(new Error('enough'));
    await expect(waiting.next()).resolves.toMatchObject({ result });
    await expect(waiting.next()).rejects.toThrow('enough');
    expect(inbox.stateOf('m-1')).toBe('unclaimed');
  });

  it('leaves results where they are once two thousand wait for their caller, even if others have results fetched', () => {
    const inbox = new Inbox();
    inbox.waitFor(ids(3_000), ALIVE);
    inbox.waitFor(['other'], ALIVE);
    for (const messageId of ids(2_000)) inbox.deliver(resultOf(messageId));
    expect([inbox.isWanting(), inbox.stateOf('m-2000'), inbox.stateOf('other')]).toEqual([true, 'held', 'wanted']);
  });

  it('remembers the latest ten thousand IDs that are dismissed, unless they are waited for again', () => {
    const inbox = new Inbox();
    for (const messageId of ids(10_001)) inbox.dismiss(messageId);
    expect(inbox.stateOf('m-0')).toBe('unclaimed');
    expect(inbox.stateOf('m-1')).toBe('finished');
    const waiting = inbox.waitFor(['m-1'], ALIVE);
    expect(inbox.stateOf('m-1')).toBe('wanted');
    waiting.close();
    expect(inbox.stateOf('m-1')).toBe('unclaimed');
  });
});

describe('an inbox, of a packed message,', () => {
  /** A result that answers so many requests. */
  function packedOf(messageId: string, requests: number): PackedResult {
    return { messageId, results: Array.from({ length: requests }, () => resultOf(messageId)) };
  }

  it('has finished with it when the last of its requests has its own, and not when one was left', async () => {
    const inbox = new Inbox();
    const [leaving, staying] = [inbox.waitFor(['m/0'], ALIVE), inbox.waitFor(['m/1'], ALIVE)];
    inbox.deliver(packedOf('m', 2), () => {});
    leaving.close();
    (await staying.next()).accept();
    expect(inbox.stateOf('m')).toBe('unclaimed');
    const late = inbox.waitFor(['m/0'], ALIVE);
    inbox.deliver(packedOf('m', 2), () => {});
    (await late.next()).accept();
    expect(inbox.stateOf('m')).toBe('finished');
  });

  it('gives the error of the whole message to all who wait for some of it', async () => {
    const inbox = new Inbox();
    const waiting = inbox.waitFor(['m/0', 'm/1'], ALIVE);
    const error = new ScoringError('TOO_MANY_REQUESTS', 'expected fewer', { messageId: 'm' });
    const accepted: string[] = [];
    inbox.deliver({ messageId: 'm', error }, (id) => accepted.push(id));
    for (const messageId of ['m/0', 'm/1']) {
      const share = await waiting.next();
      expect(share.result).toMatchObject({ messageId, error: { code: 'TOO_MANY_REQUESTS', messageId } });
      share.accept();
    }
    expect(accepted).toEqual(['m/0', 'm/1']);
  });

  it('drops it once every request is dismissed, as far as it knows how many there are', () => {
    const inbox = new Inbox();
    inbox.dismiss('m/0');
    inbox.dismiss('m/1');
    expect(inbox.stateOf('m')).toBe('unclaimed');
    inbox.dismiss('n/1', 2);
    expect(inbox.stateOf('n')).toBe('unclaimed');
    inbox.dismiss('n/0', 2);
    expect(inbox.stateOf('n')).toBe('finished');
    inbox.waitFor(['n/1'], ALIVE).close();
    expect(inbox.stateOf('n')).toBe('unclaimed');
  });

  it('lets a request be waited for once', () => {
    const inbox = new Inbox();
    inbox.waitFor(['m/0'], ALIVE);
    inbox.waitFor(['m', 'm/1'], ALIVE);
    expect(() => inbox.waitFor(['m/2', 'm/0'], ALIVE)).toThrow('m/0 is being collected already');
    inbox.waitFor(['m/2'], ALIVE);
  });
});
