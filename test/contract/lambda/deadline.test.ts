import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import type { Composition } from '../../../lambda/hosts/compose.ts';
import { createHandler, type ScoringHandler } from '../../../lambda/hosts/createHandler.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import {
  type Deployment,
  deployed,
  failuresOf,
  invoke,
  lambdaContext,
  lookupRequest,
  sqsEvent,
  sqsRecord,
} from '../../helpers/handler.ts';
import { afterThisTest } from '../../helpers/openModels.ts';
import { scorersOf } from '../../helpers/processes.ts';

const server = useSqsServer();
/** Longer than the default, so that what else the machine does makes no difference. */
const MARGIN_MS = 4_000;

/** What is deployed on an SQS that leaves some operations without an answer, and answers the others. */
async function onSqsSilentTo(...operations: readonly string[]): Promise<Deployment> {
  const silent = createServer((request, response) => {
    request.resume();
    const operation = String(request.headers['x-amz-target']).split('.').at(-1) ?? '';
    if (operations.includes(operation)) return;
    response.setHeader('content-type', 'application/x-amz-json-1.0').end('{"Successful":[],"Failed":[]}');
  });
  silent.listen(0, '127.0.0.1').unref();
  await once(silent, 'listening');
  afterThisTest(async () => silent.closeAllConnections());
  const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const queueUrl = (name: string) => `${endpoint}/000000000000/${name}`;
  return {
    sqs: server.client({ endpoint }),
    requestQueueUrl: queueUrl('requests'),
    resultQueueUrl: queueUrl('results'),
  };
}

function withMargin({ composition }: { readonly composition: Composition }, deadlineMarginMs: number): ScoringHandler {
  const limits = { ...composition.scoring.limits, deadlineMarginMs };
  return createHandler({ ...composition, scoring: { ...composition.scoring, limits } });
}

describe('the deadline of an invocation', () => {
  it.each([1, 999, 2_001, 2_002])('answers with a margin of %d ms', async (deadlineMarginMs) => {
    const where = { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
    const handler = withMargin(await deployed(where), deadlineMarginMs);

    expect(await invoke(handler, [sqsRecord(lookupRequest(0))], 30_001)).toEqual({ batchItemFailures: [] });
  });

  it.each([
    ['writes', ['SendMessageBatch']],
    ['changes of visibility', ['SendMessageBatch', 'ChangeMessageVisibilityBatch']],
  ])('ends %s that get no answer before the deadline, and reports their records', async (_, operations) => {
    const handler = withMargin(await deployed(await onSqsSilentTo(...operations)), MARGIN_MS);
    const record = sqsRecord('not JSON');

    expect(await handler(sqsEvent([record]), lambdaContext(MARGIN_MS))).toEqual(failuresOf(record));
  });
});

describe('a composition', () => {
  it('ends the process of its models when it is closed', async () => {
    const where = { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
    const { composition, handler } = await deployed(where);
    await invoke(handler, [sqsRecord(lookupRequest(0))]);
    expect(scorersOf(process.pid)).toHaveLength(1);

    await composition.close();

    expect(scorersOf(process.pid)).toEqual([]);
  });
});
