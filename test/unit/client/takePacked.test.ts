import { expect, it } from '@jest/globals';
import { createSetAside, takePacked } from '../../../client/collectFromQueue.ts';
import { createInbox } from '../../../client/inbox.ts';
import type { StoredResult } from '../../../client/readResult.ts';
import { ALIVE } from '../../helpers/deployment.ts';

const RESULTS: readonly StoredResult[] = ['a', 'b'].map((messageId) => ({
  messageId,
  document: { message_id: messageId, predictions: [] },
}));

it('keeps a packed message while another copy of one of its results waits for its caller', async () => {
  const inbox = createInbox();
  const fates: string[] = [];
  const own = {
    remove: (receiptHandle: string) => void fates.push(`${receiptHandle} deleted`),
    giveBack: (receiptHandle: string) => void fates.push(`${receiptHandle} given back`),
    idle: async () => {},
  };
  const receipt = { inbox, own, setAside: createSetAside(own) };
  const first = inbox.waitFor(['a'], ALIVE);
  expect(takePacked(RESULTS, 'first copy', receipt)).toEqual({ delivered: 1, others: 1 });
  const second = inbox.waitFor(['b'], ALIVE);

  expect(takePacked(RESULTS, 'second copy', receipt)).toEqual({ delivered: 1, others: 0 });
  (await second.next()).accept();
  expect(fates).toEqual(['second copy given back']);

  (await first.next()).accept();
  expect(takePacked(RESULTS, 'third copy', receipt)).toEqual({ delivered: 0, others: 0 });
  expect(fates).toEqual(['second copy given back', 'third copy deleted']);
});

it('delivers what a caller waits for although the message holds results for which another has no room', async () => {
  const inbox = createInbox();
  const fates: string[] = [];
  const own = {
    remove: (receiptHandle: string) => void fates.push(`${receiptHandle} deleted`),
    giveBack: (receiptHandle: string) => void fates.push(`${receiptHandle} given back`),
    idle: async () => {},
  };
  const setAside = createSetAside(own);
  const receipt = { inbox, own, setAside };
  const before = Array.from({ length: 200 }, (_, index) => `before-${index}`);
  const slow = inbox.waitFor([...before, 'a'], ALIVE);
  for (const messageId of before) {
    inbox.deliver({ result: { messageId, predictions: [] }, accept: () => {}, giveBack: () => {} });
  }
  const quick = inbox.waitFor(['b'], ALIVE);

  expect(takePacked(RESULTS, 'first copy', receipt)).toEqual({ delivered: 1, others: 0 });
  (await quick.next()).accept();
  setAside.giveBackAll();
  expect(fates).toEqual(['first copy given back']);

  (await slow.next()).accept();
  expect(takePacked(RESULTS, 'second copy', receipt)).toEqual({ delivered: 1, others: 0 });
  for (const _ of before) (await slow.next()).accept();
  expect(fates).toEqual(['first copy given back', 'second copy deleted']);
});
