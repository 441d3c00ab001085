import type { Message, SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { unpackResults } from '../../../client/readResult.ts';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { interceptSends, type Reach, type SendAnswer, useSqsServer } from '../../helpers/awsServers.ts';
import {
  composed,
  digitRequest,
  digitSamples,
  failuresOf,
  fifoSqsRecord,
  invoke,
  lookupRequest,
  recordingTelemetry,
  sqsRecord,
} from '../../helpers/handler.ts';

const server = useSqsServer();
const NONE = { batchItemFailures: [] };
/** Less than the margin before the deadline and some attempts. */
const SOON_MS = 3_000;

type Between = (entries: readonly SendMessageBatchRequestEntry[], reach: Reach) => Promise<SendAnswer>;

interface PackingOptions {
  readonly fifo?: boolean;
  readonly resultsPerMessage?: string;
  /** What stands between the handler and the result queue. */
  readonly between?: Between;
}

async function packingHandler({ fifo = false, resultsPerMessage = 'fill', between }: PackingOptions = {}) {
  const queue = fifo ? server.fifoQueue : server.queue;
  const [requestQueueUrl, resultQueueUrl] = [queue(), queue()];
  const sqs = server.client();
  let faulty = between;
  interceptSends(sqs, (entries, reach) => {
    const isSend = entries.some(({ MessageBody }) => MessageBody !== undefined);
    return isSend && faulty !== undefined ? faulty(entries, reach) : reach();
  });
  const variables = { BATCHSCORE_RESULTS_PER_MESSAGE: resultsPerMessage };
  const composition = await composed({ sqs, requestQueueUrl, resultQueueUrl }, recordingTelemetry(), { variables });
  return {
    handler: createHandler(composition),
    resultQueueUrl,
    heal() {
      faulty = undefined;
    },
  };
}

async function fiveHundredDigits(): Promise<SQSRecord[]> {
  const samples = await digitSamples(500);
  return samples.map((sample, index) => sqsRecord(index % 50 === 7 ? 'no JSON' : digitRequest(sample)));
}

/** Every document on the queue under its message ID, in the order it came. */
async function documentsOn(queueUrl: string): Promise<Map<string, unknown[]>> {
  const documents = new Map<string, unknown[]>();
  for (const message of await server.drain(queueUrl)) {
    for (const [messageId, document] of documentsIn(message)) {
      documents.set(messageId, [...(documents.get(messageId) ?? []), document]);
    }
  }
  return documents;
}

function documentsIn({ Body = '', MessageAttributes: { messageId, results } = {} }: Message): [string, unknown][] {
  if (results === undefined) return [[messageId?.StringValue ?? '', JSON.parse(Body)]];
  const read = unpackResults(Body, results.StringValue ?? '');
  if ('problem' in read) throw new Error(read.problem);
  return read.map((result) => [result.messageId, result.document]);
}

/** Of every record there is a result, and where it came more than once they are the same. */
function expectEachOnceMore(documents: ReadonlyMap<string, readonly unknown[]>, records: readonly SQSRecord[]): void {
  expect([...documents.keys()].toSorted()).toEqual(records.map(({ messageId }) => messageId).toSorted());
  for (const [first, ...more] of documents.values()) for (const other of more) expect(other).toEqual(first);
}

describe('five hundred results that share messages', () => {
  it('take few messages, and hold what they would alone', async () => {
    const records = await fiveHundredDigits();
    const [packed, single] = [await packingHandler(), await packingHandler({ resultsPerMessage: '1' })];

    expect(await invoke(packed.handler, records)).toEqual(NONE);
    expect(await invoke(single.handler, records)).toEqual(NONE);

    const messages = await server.drain(packed.resultQueueUrl);
    expect(messages.length).toBeLessThanOrEqual(6);
    const documents = new Map(messages.flatMap(documentsIn).map(([messageId, document]) => [messageId, [document]]));
    expect(documents).toEqual(await documentsOn(single.resultQueueUrl));
  });

  it('are all there, once more and the same, when the answer to a call gets lost', async () => {
    const records = await fiveHundredDigits();
    let calls = 0;
    const between: Between = async (_, reach) => {
      const answer = await reach();
      calls += 1;
      if (calls === 1) throw new Error('the connection broke');
      return answer;
    };
    const { handler, resultQueueUrl } = await packingHandler({ resultsPerMessage: '20', between });

    expect(await invoke(handler, records)).toEqual(NONE);

    const documents = await documentsOn(resultQueueUrl);
    expectEachOnceMore(documents, records);
    expect([...documents.values()].some((written) => written.length === 2)).toBe(true);
  });

  it('go back together with their message, and come once more when it is taken', async () => {
    const records = await fiveHundredDigits();
    const culprit = records[77]?.messageId ?? '';
    const refused: string[] = [];
    const between: Between = async (entries, reach) => {
      const { Successful = [] } = await reach();
      const failed = entries.filter(({ MessageBody = '' }) => MessageBody.includes(culprit));
      for (const { MessageBody = '' } of failed) refused.push(MessageBody);
      const ids = new Set(failed.map(({ Id }) => Id));
      const Failed = failed.map(({ Id }) => ({ Id, Code: 'InternalError', SenderFault: false }));
      return { Successful: Successful.filter(({ Id }) => !ids.has(Id)), Failed };
    };
    const { handler, resultQueueUrl, heal } = await packingHandler({ resultsPerMessage: '20', between });

    const { batchItemFailures } = await invoke(handler, records, SOON_MS);
    const back = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    expect(back.size).toBe(20);
    expect(
      records.filter(({ messageId }) => refused[0]?.includes(messageId)).map(({ messageId }) => messageId),
    ).toEqual(records.map(({ messageId }) => messageId).filter((messageId) => back.has(messageId)));
    heal();
    const again = records.filter(({ messageId }) => back.has(messageId));
    expect(await invoke(handler, again)).toEqual(NONE);

    expectEachOnceMore(await documentsOn(resultQueueUrl), records);
  });

  it('are the same when their requests are delivered twice', async () => {
    const records = await fiveHundredDigits();
    const { handler, resultQueueUrl } = await packingHandler();
    for (const delivery of [records, records.toReversed()]) expect(await invoke(handler, delivery)).toEqual(NONE);
    const documents = await documentsOn(resultQueueUrl);
    expectEachOnceMore(documents, records);
    expect([...documents.values()].every((written) => written.length === 2)).toBe(true);
  });
});

describe('results of message groups that share messages', () => {
  const fifoRecords = (): SQSRecord[] =>
    ['a', 'a', 'b', 'a', 'b', 'a'].map((group, index) => fifoSqsRecord(group, index, lookupRequest(index % 3)));

  it('keep the order of their group when a message is refused and comes again', async () => {
    const records = fifoRecords();
    const [a, b] = ['a', 'b'].map((name) => records.filter(({ attributes }) => attributes.MessageGroupId === name));
    const between: Between = async (entries) => ({
      Successful: entries.filter(({ MessageGroupId }) => MessageGroupId !== 'a').map(({ Id }) => ({ Id }) as never),
      Failed: entries
        .filter(({ MessageGroupId }) => MessageGroupId === 'a')
        .map(({ Id }) => ({ Id, Code: 'InternalError', SenderFault: false })),
    });
    const { handler, resultQueueUrl, heal } = await packingHandler({ fifo: true, resultsPerMessage: '3', between });

    expect(await invoke(handler, records, SOON_MS)).toEqual(failuresOf(...(a ?? [])));
    heal();
    expect(await invoke(handler, [...(a ?? []), ...(b ?? [])])).toEqual(NONE);

    const messages = await server.drain(resultQueueUrl);
    const inGroup = (name: string) =>
      messages.filter(({ Attributes }) => Attributes?.MessageGroupId === name).flatMap(documentsIn);
    expect([inGroup('a'), inGroup('b')].map((some) => some.map(([messageId]) => messageId))).toEqual(
      [a, b].map((group) => group?.map(({ messageId }) => messageId)),
    );
    expect(messages).toHaveLength(3);
  });

  it('are never dropped as duplicates of a message with other results', async () => {
    const records = fifoRecords();
    const lost: Between = async (_, reach) => {
      await reach();
      throw Object.assign(new Error('denied'), { name: 'AccessDenied', $fault: 'client' });
    };
    const { handler, resultQueueUrl, heal } = await packingHandler({ fifo: true, between: lost });
    const first = records.slice(0, 2);
    expect(await invoke(handler, first)).toEqual(failuresOf(...first));
    heal();

    expect(await invoke(handler, records)).toEqual(NONE);

    expectEachOnceMore(await documentsOn(resultQueueUrl), records);
  });
});
