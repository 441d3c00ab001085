import { describe, expect, it } from '@jest/globals';
import type { Patience } from '../../../../lambda/aws/awsClients.ts';
import { createTableWriter } from '../../../../lambda/aws/resultTable.ts';
import type { WriteVerdict } from '../../../../lambda/core/record.ts';

import { useDynamoDbServer } from '../../../helpers/dynamodbServer.ts';
import { neverAnswers, type Step } from '../../../helpers/frontServer.ts';
import { idsOf, NEVER, results } from './results.ts';

const server = useDynamoDbServer();
/** Enough for what is answered, on a busy machine too. */
const IMPATIENT: Patience = { connectMs: 1_500, answerMs: 1_500 };
const RESULTS = results(100);
/** Of the second batch request. */
const UNANSWERED = Array.from({ length: 25 }, (_, index) => 25 + index);

/** A writer behind a server that so many times does not answer the batch request of `m25`. */
async function behindSilence(times: number, attempts = 2) {
  let left = times;
  const step: Step = async (exchange) => {
    if (idsOf(exchange).includes('m25') && left-- > 0) return neverAnswers(exchange);
    const { status, headers, body } = await exchange.reach();
    exchange.response.writeHead(status, headers).end(body);
  };
  const front = await server.front(...Array<Step>(20).fill(step));
  const tableName = await server.table();
  const dynamodb = server.client(front, IMPATIENT);
  const retry = { attempts, random: () => 0 };
  const items = async () => Object.keys(await server.items(tableName)).length;
  return { dynamodb, writer: createTableWriter({ dynamodb, tableName, ttlSeconds: 60, retry }), front, items };
}

function unwrittenIn(verdicts: readonly WriteVerdict[]): number[] {
  return [...verdicts.keys()].filter((index) => !('written' in (verdicts[index] ?? {})));
}

describe('one of four batch requests that is not answered', () => {
  it('is made again, it alone, and everything is written', async () => {
    const { writer, front, items } = await behindSilence(1);

    expect(unwrittenIn(await writer.write(RESULTS, NEVER))).toEqual([]);

    expect(front.requests).toHaveLength(5);
    expect(await items()).toBe(100);
  });

  it('fails its own results and no other, when it never is', async () => {
    const { writer, items } = await behindSilence(9);

    const verdicts = await writer.write(RESULTS, NEVER);

    expect(unwrittenIn(verdicts)).toEqual(UNANSWERED);
    expect(verdicts[25]).toMatchObject({ message: expect.stringMatching(/^result table: TimeoutError/) });
    expect(await items()).toBe(75);
  });

  it('costs none of the others when the time is up: what was taken by then is written', async () => {
    const { writer, dynamodb } = await behindSilence(9);
    const aborting = new AbortController();
    let answered = 0;
    dynamodb.middlewareStack.add(
      (next) => async (args) => {
        const answer = await next(args);
        if (++answered === 3) setImmediate(() => aborting.abort());
        return answer;
      },
      { step: 'initialize' },
    );

    expect(unwrittenIn(await writer.write(RESULTS, aborting.signal))).toEqual(UNANSWERED);
  });
});
