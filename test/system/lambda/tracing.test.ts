import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { failuresOf, lookupRequest } from '../../helpers/handler.ts';
import { type HandlerProcess, startHandler } from '../../helpers/handlerProcess.ts';
import { lookupModel } from '../../helpers/onnxModels.ts';
import { modelsDirectory } from '../../helpers/openModels.ts';
import { sqsRecord } from '../../helpers/sqsEvents.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';
import { type SegmentDocument, startXrayDaemon } from '../../helpers/xrayDaemon.ts';

const server = useSqsServer();
const TRACE_ID = '1-5759e988-bd862e3fe1be46a994272793';
const FUNCTION_SEGMENT = '557abcec3ee5a047';
const SAMPLED = `Root=${TRACE_ID};Parent=${FUNCTION_SEGMENT};Sampled=1;Lineage=1:a87bd80c:0`;
const NOT_SAMPLED = SAMPLED.replace('Sampled=1', 'Sampled=0');
const STAGES = ['decode', 'stack', 'run', 'encode', 'write'];

interface Traced {
  readonly entry: HandlerProcess;
  readonly resultQueueUrl: string;
}

async function deployed(variables: Readonly<Record<string, string>>): Promise<Traced> {
  const [requestQueueUrl, resultQueueUrl] = [server.queue(), server.queue()];
  const entry = await startHandler({
    AWS_ENDPOINT_URL_SQS: new URL(requestQueueUrl).origin,
    BATCHSCORE_MODELS_DIR: await modelsDirectory({ 'lookup/1/model.onnx': lookupModel() }),
    BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
    BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
    BATCHSCORE_SERVICE_NAME: 'mine',
    ...variables,
  });
  return { entry, resultQueueUrl };
}

/** The trace of the `n`th producer, and the segment that sent the message. */
function producer(n: number): { readonly trace_id: string; readonly id: string } {
  return { trace_id: `1-5759e988-${String(n).padStart(24, '0')}`, id: String(n).padStart(16, 'a') };
}

/** A record whose producer traces. */
function tracedRecord({ trace_id, id }: ReturnType<typeof producer>, sampled = '1'): SQSRecord {
  const record = sqsRecord(lookupRequest(0));
  const AWSTraceHeader = `Root=${trace_id};Parent=${id};Sampled=${sampled}`;
  return { ...record, attributes: { ...record.attributes, AWSTraceHeader } };
}

function namesOf({ subsegments = [] }: SegmentDocument): string[] {
  return [...new Set(subsegments.map(({ name }) => name))];
}

describe('a traced invocation', () => {
  it('is one document: a subsegment of the function, with those of the stages', async () => {
    const daemon = await startXrayDaemon();
    const { entry } = await deployed({ BATCHSCORE_TRACING: 'true', AWS_XRAY_DAEMON_ADDRESS: daemon.address });
    const startedAt = Date.now() / 1000;

    await entry.invoke(
      [0, 1, 2].map((index) => sqsRecord(lookupRequest(index))),
      SAMPLED,
    );

    await daemon.has(1);
    const [document, ...others] = daemon.documents as [SegmentDocument];
    expect(others).toEqual([]);
    expect(document).toMatchObject({
      name: 'batchscore',
      type: 'subsegment',
      trace_id: TRACE_ID,
      parent_id: FUNCTION_SEGMENT,
      annotations: { service: 'mine', records: 3, answered: 3, retried: 0 },
    });
    expect(document).not.toHaveProperty('fault');
    expect(namesOf(document)).toEqual(STAGES);
    const all = [document, ...(document.subsegments ?? [])];
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    expect(document.start_time).toBeGreaterThan(startedAt - 0.01);
    for (const { id, start_time, end_time } of all) {
      expect(id).toMatch(/^[\da-f]{16}$/);
      expect(start_time).toBeGreaterThanOrEqual(document.start_time);
      expect(end_time).toBeGreaterThanOrEqual(start_time);
      expect(end_time).toBeLessThanOrEqual(document.end_time);
    }
    const run = document.subsegments?.find(({ name }) => name === 'run');
    expect(run?.metadata).toMatchObject({ batchscore: { model: 'lookup', version: '1', rows: 3 } });
  });

  it('links the traces that sent the messages, each once, at most twenty, and none that is not recorded', async () => {
    const daemon = await startXrayDaemon();
    const { entry } = await deployed({ BATCHSCORE_TRACING: 'true', AWS_XRAY_DAEMON_ADDRESS: daemon.address });
    const producers = Array.from({ length: 23 }, (_, n) => producer(n));
    const wrong = sqsRecord(lookupRequest(0));

    await entry.invoke(
      [
        sqsRecord(lookupRequest(0)),
        tracedRecord({ ...producer(90), trace_id: TRACE_ID }),
        tracedRecord(producer(91), '0'),
        { ...wrong, attributes: { ...wrong.attributes, AWSTraceHeader: 'Root=1;Parent="x";Sampled=1' } },
        ...producers.flatMap((one) => [tracedRecord(one), tracedRecord(one)]),
      ],
      SAMPLED,
    );

    await daemon.has(1);
    expect(daemon.documents[0]?.links).toEqual(producers.slice(0, 20));
    expect(daemon.documents[0]?.metadata).toMatchObject({ batchscore: { linksLeftOut: 3 } });
  });

  it('says what was retried, and when it was told to come back', async () => {
    const daemon = await startXrayDaemon();
    const { entry, resultQueueUrl } = await deployed({
      BATCHSCORE_TRACING: 'true',
      AWS_XRAY_DAEMON_ADDRESS: daemon.address,
    });
    server.deleteQueue(resultQueueUrl);
    const record = sqsRecord(lookupRequest(0));

    expect(await entry.invoke([record], SAMPLED)).toEqual(failuresOf(record));

    await daemon.has(1);
    const [document] = daemon.documents as [SegmentDocument];
    expect(document).toMatchObject({ fault: true, annotations: { answered: 0, retried: 1 } });
    expect(namesOf(document)).toEqual([...STAGES, 'acknowledge']);
  });

  it('says what was acknowledged before messages that came again were scored', async () => {
    const daemon = await startXrayDaemon();
    const { entry } = await deployed({ BATCHSCORE_TRACING: 'true', AWS_XRAY_DAEMON_ADDRESS: daemon.address });
    const [first, again] = [sqsRecord(lookupRequest(0)), sqsRecord(lookupRequest(1))];
    const cameAgain = { ...again, attributes: { ...again.attributes, ApproximateReceiveCount: '2' } };

    await entry.invoke([cameAgain, first], SAMPLED);

    await daemon.has(1);
    const acknowledged = daemon.documents[0]?.subsegments?.filter(({ name }) => name === 'acknowledge');
    expect(acknowledged?.map(({ metadata }) => metadata?.batchscore)).toEqual([{ answered: 1 }]);
  });

  it('stays below the size of a document, however many runs there are', async () => {
    const daemon = await startXrayDaemon();
    const { entry } = await deployed({
      BATCHSCORE_TRACING: 'true',
      AWS_XRAY_DAEMON_ADDRESS: daemon.address,
      BATCHSCORE_MAX_BATCH_ROWS: '1',
    });

    await entry.invoke(
      Array.from({ length: 200 }, (_, n) => tracedRecord(producer(n))),
      SAMPLED,
    );

    await daemon.has(1);
    const [document] = daemon.documents as [SegmentDocument];
    expect(document.subsegments).toHaveLength(50);
    expect(document.metadata).toMatchObject({ batchscore: { stagesLeftOut: { stack: { ms: expect.any(Number) } } } });
    expect(daemon.sizes[0]).toBeLessThan(64_000);
  });
});

describe('an invocation is not traced', () => {
  it('unless X-Ray samples it', async () => {
    const daemon = await startXrayDaemon();
    const { entry } = await deployed({ BATCHSCORE_TRACING: 'true', AWS_XRAY_DAEMON_ADDRESS: daemon.address });
    const records = [sqsRecord(lookupRequest(0)), sqsRecord(lookupRequest(1))];

    for (const header of [NOT_SAMPLED, undefined, `Root=${TRACE_ID};Sampled=1`]) await entry.invoke(records, header);
    await entry.invoke([sqsRecord(lookupRequest(0))], SAMPLED);

    await daemon.has(1);
    expect(daemon.documents).toMatchObject([{ annotations: { records: 1 } }]);
  });

  it('unless tracing is on', async () => {
    const daemon = await startXrayDaemon();
    const address = { AWS_XRAY_DAEMON_ADDRESS: daemon.address };
    const [{ entry: silent }, { entry: traced }] = await Promise.all([
      deployed(address),
      deployed({ ...address, BATCHSCORE_TRACING: 'true' }),
    ]);

    await silent.invoke([sqsRecord(lookupRequest(0)), sqsRecord(lookupRequest(1))], SAMPLED);
    await traced.invoke([sqsRecord(lookupRequest(0))], SAMPLED);

    await daemon.has(1);
    expect(daemon.documents).toMatchObject([{ annotations: { records: 1 } }]);
  });

  it('where it is not said where the daemon is, and the log says so', async () => {
    const { entry } = await deployed({ BATCHSCORE_TRACING: 'true' });

    expect(await entry.invoke([sqsRecord(lookupRequest(0))], SAMPLED)).toEqual({ batchItemFailures: [] });

    expect(await entry.end()).toContain('AWS_XRAY_DAEMON_ADDRESS: expected host:port');
  });
});
