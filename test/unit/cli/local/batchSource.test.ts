import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { createBatchSource } from '../../../../cli/local/localMapping.ts';
import { sqsRecord } from '../../../helpers/sqsEvents.ts';

describe('a batch source', () => {
  it('hands over what polls bring that were under way when its limits changed, though it is stopped meanwhile', async () => {
    const polls: PromiseWithResolvers<SQSRecord[]>[] = [];
    const receive = (): Promise<SQSRecord[]> => {
      const poll = Promise.withResolvers<SQSRecord[]>();
      polls.push(poll);
      return poll.promise;
    };
    const source = createBatchSource({ batchSize: 10, windowSeconds: 0, receive, onError: () => {} });
    const batch = source.next();
    source.update({ batchSize: 1, windowSeconds: 0 });
    const stopped = source.stop();
    const [before, after] = polls;
    after?.resolve([]);
    await new Promise((resolve) => setImmediate(resolve));
    before?.resolve([sqsRecord('late', { messageId: 'late' })]);
    await stopped;
    expect(polls).toHaveLength(2);
    expect((await batch)?.records.map(({ messageId }) => messageId)).toEqual(['late']);
  });
});
