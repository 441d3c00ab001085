import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { collect, type ResultStore } from '../../../client/collect.ts';
import { Inbox } from '../../../client/inbox.ts';
import { CollectTimeoutError, ScoringError } from '../../../client/index.ts';
import { score } from '../../../client/score.ts';
import { lineOf, rejectionOf } from './requests.ts';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

/** A store that brings nothing. */
const IDLE: ResultStore = { clients: [], settled: async () => {}, trouble: async () => ({}), close: async () => {} };

describe('a collection', () => {
  /** Collects a, b and c for 300 ms. */
  function collectThree(inbox: Inbox) {
    const came: string[] = [];
    const collecting = (async () => {
      for await (const { messageId } of collect(['a', 'b', 'c'], { timeoutMs: 300 }, { inbox, store: IDLE })) {
        came.push(messageId);
      }
    })();
    return { came, error: rejectionOf(collecting) };
  }

  it('ends at its timeout, not before, with what came yielded and the rest named', async () => {
    const inbox = new Inbox();
    const { came, error } = collectThree(inbox);
    await nextTurn();
    inbox.deliver({ messageId: 'b', predictions: [] });
    await nextTurn();
    jest.advanceTimersByTime(299);
    await nextTurn();
    expect(inbox.wanted()).toEqual(['a', 'c']);

    jest.advanceTimersByTime(1);
    expect(await error).toBeInstanceOf(CollectTimeoutError);
    expect(await error).toMatchObject({
      code: 'TIMEOUT',
      missing: ['a', 'c'],
      message: expect.stringContaining('expected 3 results within 300 ms, 2 are missing; collect'),
    });
    expect(came).toEqual(['b']);
    expect(inbox.wanted()).toEqual([]);
  });
});

describe('a caller of score', () => {
  /** Scores one request for 200 ms. */
  function scoreOne(inbox: Inbox, sent: Promise<string>) {
    const outbox = { send: async () => ({ id: await sent, requests: 1 }), room: async () => {} };
    return rejectionOf(score(lineOf(1).inputs, { id: 'order-42', timeoutMs: 200 }, { inbox, outbox }));
  }

  it('gives up at its timeout, not before, and its result is dropped when it comes', async () => {
    const inbox = new Inbox();
    const error = scoreOne(inbox, Promise.resolve('m-1'));
    await nextTurn();
    jest.advanceTimersByTime(199);
    await nextTurn();
    expect(inbox.stateOf('m-1')).toBe('wanted');

    jest.advanceTimersByTime(1);
    expect(await error).toBeInstanceOf(ScoringError);
    expect(await error).toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringContaining('expected scores within 200 ms, got none; '),
      id: 'order-42',
      messageId: 'm-1',
      retryable: true,
    });
    expect(inbox.stateOf('m-1')).toBe('finished');
  });

  it.each(['m-1', 'm-1/0'])(
    'gives up while its request is being sent, and its result under %s is dropped',
    async (id) => {
      const inbox = new Inbox();
      const sent = Promise.withResolvers<string>();
      const error = scoreOne(inbox, sent.promise);
      jest.advanceTimersByTime(200);
      expect(await error).toMatchObject({ code: 'TIMEOUT', messageId: undefined });
      sent.resolve(id);
      await nextTurn();
      expect(inbox.stateOf('m-1')).toBe('finished');
    },
  );
});
