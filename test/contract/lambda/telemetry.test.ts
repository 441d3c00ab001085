import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { createPowertoolsTelemetry } from '../../../lambda/aws/powertools.ts';
import { METRIC_UNITS, type MicroBatchReport } from '../../../lambda/core/observer.ts';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import {
  composed,
  type Deployment,
  digitRequest,
  digitSamples,
  invoke,
  lookupRequest,
  sqsRecord,
} from '../../helpers/handler.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import { profileOf } from '../../helpers/profiles.ts';

const server = useSqsServer();
/** What makes a run of its own cheaper than the padding of another. */
const RAGGED = identityModel('FP32', ['batch', 'length']);
const COSTLY_WHEN_LONG = [
  { rows: 1, length: 1, ms: 1 },
  { rows: 1, length: 20, ms: 20 },
  { rows: 2, length: 1, ms: 2 },
  { rows: 2, length: 20, ms: 40 },
];
const MISMATCH = {
  model: 'few',
  version: '1',
  messageId: 'a message',
  difference: { output: 'y', detail: '1 and 0.5 at element 0' },
};
const DEARER: MicroBatchReport = {
  ...{ model: 'few', version: '1', requests: 1, rows: 1, paddedRows: 1, maxBatchRows: 8, paddedLength: 1 },
  ...{ paddingShare: 0, closedBecause: 'dearer', stackMs: 1, runMs: 1, encodeMs: 1 },
};
const SECRET = 'only-the-producer-knows-this';

afterEach(() => {
  jest.restoreAllMocks();
});

function deployment(): Deployment {
  return { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
}

/** Everything that goes to standard output and standard error from now on, in pieces. */
function captureOutput(): string[] {
  const printed: string[] = [];
  for (const stream of [process.stdout, process.stderr]) {
    jest.spyOn(stream, 'write').mockImplementation((chunk) => printed.push(String(chunk)) > 0);
  }
  return printed;
}

interface Emf {
  readonly _aws: {
    readonly CloudWatchMetrics: readonly { Namespace: string; Metrics: readonly { Name: string; Unit: string }[] }[];
  };
  readonly [name: string]: unknown;
}

function emfOf(printed: readonly string[]): Emf[] {
  const lines = printed.join('').split('\n');
  return lines.filter((line) => line.includes('"_aws"')).map((line): Emf => JSON.parse(line));
}

interface LogLine {
  readonly message: string;
  readonly [key: string]: unknown;
}

function linesOf(printed: readonly string[], message: string): LogLine[] {
  const lines = printed.join('').split('\n');
  return lines.filter((line) => line.includes(message)).map((line): LogLine => JSON.parse(line));
}

describe('the telemetry of a deployment', () => {
  it('prints the metrics of an invocation as one line of EMF', async () => {
    const printed = captureOutput();
    const { handler } = await handlerWith();
    const records = (await digitSamples(3)).map((sample) => sqsRecord(digitRequest(sample)));

    await invoke(handler, [...records, sqsRecord('not JSON'), sqsRecord([{}, lookupRequest(99)])]);

    const [emf, ...others] = emfOf(printed);
    expect(others).toEqual([]);
    expect(emf).toMatchObject({ service: 'batchscore', Answered: 5, Errors: 3, Retries: 0, Rows: 3, MicroBatches: 1 });
    expect(emf).toMatchObject({ BatchSize: 5, BatchFill: 50 });
    expect(emf).toMatchObject({ PaddingRows: 0, ClosedEnd: 1, Fill: (100 * 3) / 512, RunTime: expect.any(Number) });
    expect(emf).toMatchObject({ provider: 'cpu' });
    expect(emf).not.toHaveProperty('device');
    const [declared] = emf?._aws.CloudWatchMetrics ?? [];
    expect(declared?.Namespace).toBe('batchscore');
    expect(declared?.Metrics).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ Name: 'Answered', Unit: 'Count' }),
        expect.objectContaining({ Name: 'Fill', Unit: 'Percent' }),
        expect.objectContaining({ Name: 'RunTime', Unit: 'Milliseconds' }),
      ]),
    );
  });

  it('emits every metric that is declared, in its unit, and no other', async () => {
    const printed = captureOutput();
    const telemetry = telemetryOf();
    const ofLength = (length: number) => [
      { name: 'x', datatype: 'FP32', shape: [1, length], data: Array(length).fill(1) },
    ];
    const composition = await composed(deployment(), telemetry, {
      models: {
        'few/1/model.onnx': identityModel('FP32', ['batch', 1]),
        'few/config.json': { maxBatchRows: 1 },
        'wide/1/model.onnx': identityModel('FP32', ['batch', 900]),
        'ragged/1/model.onnx': RAGGED,
        'ragged/1/profile.json': profileOf(RAGGED, COSTLY_WHEN_LONG),
        'ragged/config.json': { ragged: { axis: 'length', pad: { x: 0 } } },
      },
      variables: { BATCHSCORE_MAX_BATCH_ELEMENTS: '1000' },
    });
    const lengthsOf = { few: [1, 1], wide: [900, 900], ragged: [1, 20] };
    const records = Object.entries(lengthsOf).flatMap(([model_name, lengths]) =>
      lengths.map((length) => sqsRecord({ model_name, inputs: ofLength(length) })),
    );

    await invoke(createHandler(composition), records);
    telemetry.observer.microBatch(DEARER, () => []);
    telemetry.observer.checked(1);
    telemetry.observer.transformed?.({ model: 'few', hook: 'decodeBatch', requests: 2, transformMs: 1 });
    telemetry.observer.captured?.({ kept: 2, lost: 1 });
    telemetry.observer.batchMismatch(MISMATCH);
    telemetry.scorerLost?.(new Error('a test'));
    telemetry.publish();

    const emitted = emfOf(printed).flatMap(({ _aws }) => _aws.CloudWatchMetrics.flatMap(({ Metrics }) => Metrics));
    expect(Object.fromEntries(emitted.map(({ Name, Unit }) => [Name, Unit]))).toEqual(METRIC_UNITS);
  });

  it('says why records are handed back: once for each reason, with their number and one of them', async () => {
    const printed = captureOutput();
    const where = deployment();
    server.deleteQueue(where.resultQueueUrl);
    const { handler } = await handlerWith(telemetryOf(), where);
    const records = [sqsRecord(lookupRequest(0)), sqsRecord('not JSON')];

    const { batchItemFailures } = await invoke(handler, records);

    expect(linesOf(printed, 'records go back to SQS')).toMatchObject([
      {
        level: 'WARN',
        code: 'WRITE_FAILED',
        reason: 'result queue: QueueDoesNotExist: The specified queue does not exist.',
        records: 2,
        messageId: records[0]?.messageId,
        function_request_id: expect.any(String),
      },
    ]);
    expect(batchItemFailures).toHaveLength(2);
    expect(emfOf(printed)).toMatchObject([{ Answered: 0, Errors: 0, Retries: 2, MissingOrDenied: 2 }]);
  });

  it('says how the scorer was lost, and counts it', () => {
    const printed = captureOutput();
    const telemetry = telemetryOf();

    telemetry.scorerLost?.(new Error('the scorer was ended by SIGSEGV'));
    telemetry.publish();

    const error = { message: 'the scorer was ended by SIGSEGV' };
    expect(linesOf(printed, 'the scorer was lost')).toMatchObject([{ level: 'ERROR', error }]);
    expect(emfOf(printed)).toMatchObject([{ ScorersLost: 1 }]);
  });

  it('names the row that a micro-batch changed by its message, without what was in it', () => {
    const printed = captureOutput();
    const { observer, publish } = telemetryOf();
    const ofText = { output: 'text', detail: `${SECRET} and other at element 0` };

    observer.batchMismatch(MISMATCH);
    observer.batchMismatch({ ...MISMATCH, model: 'other', difference: ofText });
    publish();

    expect(linesOf(printed, 'no longer batched')).toMatchObject([
      { level: 'ERROR', model: 'few', version: '1', output: 'y', messageId: 'a message' },
      { level: 'ERROR', model: 'other', output: 'text' },
    ]);
    expect(emfOf(printed)).toMatchObject([{ BatchMismatch: [1, 1] }]);
    expect(printed.join('')).not.toContain(SECRET);
  });

  it('has the providers and the devices of its models as properties of every line', () => {
    const printed = captureOutput();
    const telemetry = telemetryOf();
    telemetry.assigned?.({ provider: 'cuda', devices: ['NVIDIA L4', 'NVIDIA L4'] });
    telemetry.assigned?.({ provider: 'cpu', devices: [] });

    for (const _ of [1, 2]) {
      telemetry.outcomes([], []);
      telemetry.publish();
    }

    const properties = { service: 'batchscore', provider: 'cuda, cpu', device: 'NVIDIA L4' };
    expect(emfOf(printed)).toMatchObject([properties, properties]);
  });

  it('starts anew with every invocation', async () => {
    const printed = captureOutput();
    const { handler } = await handlerWith();

    await invoke(handler, [sqsRecord(lookupRequest(0)), sqsRecord(lookupRequest(1))]);
    await invoke(handler, [sqsRecord(lookupRequest(2))]);

    expect(emfOf(printed)).toMatchObject([
      { Answered: 2, Rows: 2 },
      { Answered: 1, Rows: 1 },
    ]);
  });

  it('never prints a part of a message, whatever is wrong with it', async () => {
    const printed = captureOutput();
    const telemetry = telemetryOf();
    telemetry.logger.setLogLevel('DEBUG');
    const where = deployment();
    const { handler, composition } = await handlerWith(telemetry, where);
    const [sample = { pixels: [], label: 0 }] = await digitSamples(1);
    const records = [
      sqsRecord(digitRequest(sample, SECRET)),
      sqsRecord(`{"id": "${SECRET}", `),
      sqsRecord({ ...digitRequest(sample), [SECRET]: 1 }),
      sqsRecord({ ...digitRequest(sample), model_name: SECRET }),
      sqsRecord({ ...digitRequest(sample), model_version: SECRET }),
      sqsRecord({ id: SECRET, inputs: [{ name: SECRET, datatype: 'FP32', shape: [1], data: [1] }] }),
      sqsRecord({ inputs: [{ name: 'image', datatype: 'FP32', shape: [1, 1], data: [SECRET] }] }),
      sqsRecord({ id: SECRET, ...lookupRequest(99) }),
    ];

    await invoke(handler, records);
    server.deleteQueue(where.resultQueueUrl);
    await invoke(handler, records);
    const score = () => Promise.reject(new Error('a bug in the scorer'));
    await invoke(createHandler({ ...composition, scoring: { ...composition.scoring, score } }), records);

    expect(emfOf(printed)).toMatchObject([{ Answered: 8 }, { Retries: 8 }, { Retries: 8 }]);
    expect(printed.join('')).toContain('a bug in the scorer');
    expect(printed.join('')).not.toContain(SECRET);
  });
});

async function handlerWith(telemetry = telemetryOf(), where = deployment()) {
  const composition = await composed(where, telemetry);
  return { composition, handler: createHandler(composition) };
}

function telemetryOf() {
  return createPowertoolsTelemetry({ serviceName: 'batchscore', batchSize: 10 });
}
