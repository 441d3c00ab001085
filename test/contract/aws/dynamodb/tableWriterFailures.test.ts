import { describe, expect, it } from '@jest/globals';
import { createTableWriter } from '../../../../lambda/aws/resultTable.ts';
import type { RetryOptions } from '../../../../lambda/aws/sendBatches.ts';
import { useDynamoDbServer } from '../../../helpers/dynamodbServer.ts';
import { answersJson, hangsUp, type Step } from '../../../helpers/frontServer.ts';
import { idsOf, NEVER, putsOf, result, results, WRITTEN } from './results.ts';

const server = useDynamoDbServer();
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

/** A writer to a table of its own whose n-th batch request is answered by the n-th step. */
async function opened(retry: RetryOptions, ...steps: Step[]) {
  const front = await server.front(...steps);
  const tableName = await server.table();
  const writer = createTableWriter({ dynamodb: server.client(front), tableName, ttlSeconds: 60, retry });
  return {
    writer,
    ids: async () => Object.keys(await server.items(tableName)).toSorted(),
    calls: () => front.requests.map(idsOf),
  };
}

/** Puts all but these, and says so in a 200 answer as DynamoDB does. */
function leaving(...ids: readonly string[]): Step {
  return async (exchange) => {
    const { table, puts } = putsOf(exchange);
    const isLeft = (_: unknown, index: number) => ids.includes(idsOf(exchange)[index] ?? '');
    const left = puts.filter(isLeft);
    const taken = puts.filter((put) => !left.includes(put));
    if (taken.length > 0) await exchange.reach(JSON.stringify({ RequestItems: { [table]: taken } }));
    answersJson(200, { UnprocessedItems: left.length > 0 ? { [table]: left } : {} })(exchange);
  };
}

function refusing(status: number, name: string): Step {
  return answersJson(status, { __type: `com.amazonaws.dynamodb.v20120810#${name}`, message: `${name} it is` });
}

describe('items that DynamoDB left unprocessed', () => {
  it('are put again, and they alone', async () => {
    const { writer, ids, calls } = await opened(AT_ONCE, leaving('m1', 'm3'), leaving('m3'));

    const verdicts = await writer.write(results(5), NEVER);

    expect(verdicts).toEqual(results(5).map(() => WRITTEN));
    expect(calls()).toEqual([['m0', 'm1', 'm2', 'm3', 'm4'], ['m1', 'm3'], ['m3']]);
    expect(await ids()).toEqual(['m0', 'm1', 'm2', 'm3', 'm4']);
  });

  it('are put again on their own: no batch request waits for another', async () => {
    const some = leaving('m0', 'm24', 'm25', 'm49');
    const { writer, calls } = await opened(AT_ONCE, some, some);

    await writer.write(results(50), NEVER);

    const again = calls().filter((ids) => ids.length < 25);
    expect(again.toSorted()).toEqual([
      ['m0', 'm24'],
      ['m25', 'm49'],
    ]);
  });

  it('are failures in the end, and they alone, when there never is capacity', async () => {
    const { writer, ids, calls } = await opened({ ...AT_ONCE, attempts: 3 }, ...Array(3).fill(leaving('m1')));

    const verdicts = await writer.write(results(3), NEVER);

    expect(verdicts).toEqual([
      WRITTEN,
      {
        failed: true,
        code: 'WRITE_FAILED',
        message: 'result table: DynamoDB had no capacity left for this item',
        outage: { of: 'result table', kind: 'busy' },
      },
      WRITTEN,
    ]);
    expect(calls()).toHaveLength(3);
    expect(await ids()).toEqual(['m0', 'm2']);
  });

  it('fail every result of their message ID', async () => {
    const { writer } = await opened({ attempts: 1 }, leaving('a'));

    const verdicts = await writer.write([result('a', '1'), result('b'), result('a', '2')], NEVER);

    expect(verdicts).toMatchObject([{ code: 'WRITE_FAILED' }, WRITTEN, { code: 'WRITE_FAILED' }]);
  });

  it('wait for their next attempt until the deadline, and no longer', async () => {
    const aborting = new AbortController();
    const abortsInThePause: RetryOptions = {
      ...IN_AN_HOUR,
      random: () => {
        setImmediate(() => aborting.abort());
        return 1;
      },
    };
    const { writer, calls } = await opened(abortsInThePause, leaving('m0'));

    const verdicts = await writer.write(results(2), aborting.signal);

    expect(verdicts).toMatchObject([
      { code: 'WRITE_FAILED', message: expect.stringContaining('no capacity') },
      WRITTEN,
    ]);
    expect(calls()).toHaveLength(1);
  });
});

describe('a batch request that failed', () => {
  it.each([
    ['ProvisionedThroughputExceededException', 400],
    ['ThrottlingException', 400],
    ['RequestLimitExceeded', 400],
    ['InternalServerError', 500],
    ['ServiceUnavailable', 503],
  ])('because of %s is made again', async (name, status) => {
    const { writer, ids, calls } = await opened(AT_ONCE, refusing(status, name), refusing(status, name));

    expect(await writer.write(results(2), NEVER)).toEqual([WRITTEN, WRITTEN]);

    expect(calls()).toHaveLength(3);
    expect(await ids()).toEqual(['m0', 'm1']);
  });

  it('because the connection broke is made again', async () => {
    const { writer, ids } = await opened(AT_ONCE, hangsUp);

    expect(await writer.write(results(1), NEVER)).toEqual([WRITTEN]);
    expect(await ids()).toEqual(['m0']);
  });

  it.each(['AccessDeniedException', 'ValidationException'])('because of %s is not made again', async (name) => {
    const { writer, calls } = await opened(IN_AN_HOUR, refusing(400, name));

    const verdicts = await writer.write(results(1), NEVER);

    expect(verdicts).toMatchObject([
      { code: 'WRITE_FAILED', message: expect.stringMatching(`^result table: ${name}: ${name} it is`) },
    ]);
    expect(calls()).toHaveLength(1);
  });

  it('because there is no such table is not made again', async () => {
    const front = await server.front();
    const dynamodb = server.client(front);
    const writer = createTableWriter({ dynamodb, tableName: 'none', ttlSeconds: 60, retry: IN_AN_HOUR });

    const verdicts = await writer.write(results(1), NEVER);

    expect(verdicts).toMatchObject([
      { code: 'WRITE_FAILED', message: expect.stringMatching(/^result table: ResourceNotFoundException/) },
    ]);
    expect(front.requests).toHaveLength(1);
  });

  it('fails the results of no other batch request', async () => {
    const { writer } = await opened(AT_ONCE, refusing(400, 'AccessDeniedException'));

    const verdicts = await writer.write(results(50), NEVER);

    expect(verdicts.filter((verdict) => 'written' in verdict)).toHaveLength(25);
  });
});

describe('an aborted write', () => {
  it('claims nothing and sends nothing when it was aborted before', async () => {
    const { writer, calls } = await opened(AT_ONCE);

    expect(await writer.write(results(2), AbortSignal.abort())).toMatchObject([
      { code: 'WRITE_FAILED' },
      { code: 'WRITE_FAILED' },
    ]);
    expect(calls()).toEqual([]);
  });

  it('gives up a batch request that is not answered', async () => {
    const aborting = new AbortController();
    const { writer } = await opened(IN_AN_HOUR, () => aborting.abort());

    expect(await writer.write(results(1), aborting.signal)).toMatchObject([
      { code: 'WRITE_FAILED', message: 'result table: expected an answer before the deadline, got none' },
    ]);
  });
});
