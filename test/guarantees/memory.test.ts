import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GetObjectCommandOutput, S3Client } from '@aws-sdk/client-s3';
import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { encodeModel } from '../../bench/workload/encodeModel.ts';
import { CLIENT_PATIENCE } from '../../lambda/aws/sqsWire.ts';
import { type MaybePromise, waitOrAbort } from '../../lambda/core/concurrency.ts';
import type { Model } from '../../lambda/core/model.ts';
import { type MessageRecord, pointerBody, type Result, type TimeLimit } from '../../lambda/core/record.ts';
import { createHandler } from '../../lambda/hosts/createHandler.ts';
import { scoreRecords } from '../../lambda/hosts/records.ts';
import { useS3Server, useSqsServer } from '../helpers/awsServers.ts';
import type { Step } from '../helpers/frontServer.ts';
import { composed, failuresOf, invoke, lookupRequest, recordingTelemetry, sqsRecord } from '../helpers/handler.ts';
import { aMoment, HOSTS, LOOKUP, lookup, useHosts } from '../helpers/hosts.ts';
import { closedGate, whatCanHappen } from '../helpers/manualClock.ts';
import { identityModel } from '../helpers/onnxModels.ts';
import {
  enoughTime,
  fifoRecords,
  lineModel,
  type MemoryWriterOptions,
  memoryWriter,
  scoringDependencies,
  standardRecords,
} from '../helpers/scoring.ts';

const hosts = useHosts();
const s3 = useS3Server();
const sqs = useSqsServer();
const MIB = 1024 * 1024;
const MEMORY_MB = 1769;
/** What is left of 1 MiB for the body. */
const INLINE = MIB - 1024;
const PAYLOAD = Math.floor(0.99 * ((MEMORY_MB * MIB) / 64));
const REQUEST = JSON.stringify(lookupRequest(1));

/** Bodies that take much more memory than they are long. */
const HOSTILE: Readonly<Record<string, (characters: number) => string>> = {
  'requests that are numbers': (characters) => `[${repeated('1', characters)}]`,
  'requests that are empty objects': (characters) => `[${repeated('{}', characters)}]`,
  'arrays in arrays': (characters) => '['.repeat(characters / 2) + ']'.repeat(characters / 2),
  'rows that are empty': (characters) => `{"instances":[${repeated('[]', characters)}]}`,
  'rows that are objects': (characters) => `{"instances":[${repeated('{"index":1}', characters)}]}`,
  'elements that are arrays': (characters) => lookupWith(`[${repeated('[0]', characters)}]`, characters / 4),
  'many rows': (characters) => lookupWith(`[${repeated('0', characters)}]`, characters / 2),
  'keys that nobody knows': (characters) => `{${repeated('"":0', characters)}}`,
  'one long string': (characters) => JSON.stringify('é'.repeat(characters / 2)),
  'requests for all that is there': (characters) => `[${repeated(REQUEST, characters)}]`,
};

function repeated(text: string, characters: number): string {
  return `${`${text},`.repeat(characters / (text.length + 1) - 50)}${text}`;
}

function repeatedTimes(text: string, times: number): string {
  return Array(times).fill(text).join();
}

function lookupWith(data: string, rows: number): string {
  return `{"inputs":[{"name":"index","datatype":"INT64","shape":[${Math.floor(rows)}],"data":${data}}]}`;
}

/** Gives back float32 `[batch, 1]`; a run of four rows or more asks for a pebibyte. */
function greedyModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 1] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 1] }],
    nodes: [
      { op: 'Shape', inputs: ['x'], outputs: ['rows'], attributes: { start: 0, end: 1 } },
      { op: 'Min', inputs: ['rows', 'four'], outputs: ['place'] },
      { op: 'Gather', inputs: ['sizes', 'place'], outputs: ['size'] },
      { op: 'ConstantOfShape', inputs: ['size'], outputs: ['zeros'] },
      { op: 'ReduceMax', inputs: ['zeros'], outputs: ['nothing'], attributes: { keepdims: 0 } },
      { op: 'Add', inputs: ['x', 'nothing'], outputs: ['y'] },
    ],
    constants: [
      { name: 'four', dataType: 7, dims: [1], int64Data: [4] },
      { name: 'sizes', dataType: 7, dims: [5], int64Data: [1, 1, 1, 1, 2 ** 48] },
    ],
  });
}

function pointerTo(s3BucketName: string, s3Key: string): SQSRecord {
  return sqsRecord(['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName, s3Key }], {
    // It says that it is next to nothing.
    messageAttributes: { ExtendedPayloadSize: { stringValue: '1', dataType: 'Number' } },
  });
}

describe('6. Memory is bounded, whatever the messages hold', () => {
  it.each(HOSTS)(
    '%s scores the neighbours of hostile messages, and keeps a fifth of the memory',
    async (name) => {
      const host = await hosts.start(name, {
        models: LOOKUP,
        environment: { AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(MEMORY_MB) },
        // As much as Lambda's Node has.
        execArgv: [`--max-old-space-size=${Math.floor(MEMORY_MB * 0.9)}`],
      });
      for (const bodyOf of Object.values(HOSTILE)) {
        const hostile = Array.from({ length: 5 }, () => bodyOf(INLINE));
        const ids = host.send([...hostile, ...[0, 1, 2, 3].map(lookup)]);
        await host.become('deleted', ids);
        expect(await host.answers(ids.slice(5))).toMatchObject(
          [10, 20, 30, 10].map((value) => ({ outputs: [{ data: [value] }] })),
        );
        expect(host.receives(ids.slice(5))).toEqual([1, 1, 1, 1]);
      }

      expect(host.peakBytes()).toBeLessThan(0.8 * MEMORY_MB * MIB);
    },
    120_000,
  );

  it('the function does so too where they point to payloads as large as allowed', async () => {
    const bodies = Object.values(HOSTILE);
    // The server takes no object of that size.
    const step: Step = ({ path, response }) => {
      const body = Buffer.from(bodies[Number(/\d+(?=\?|$)/.exec(path))]?.(PAYLOAD) ?? '');
      response.writeHead(200, { 'content-length': body.length }).end(body);
    };
    const environment = {
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(MEMORY_MB),
      AWS_ENDPOINT_URL_S3: (await s3.front(...Array<Step>(100).fill(step))).endpoint,
      BATCHSCORE_PAYLOAD_BUCKET: 'payloads',
    };
    const execArgv = [`--max-old-space-size=${Math.floor(MEMORY_MB * 0.9)}`];
    const host = await hosts.start('the function', { models: LOOKUP, environment, execArgv });
    for (const index of bodies.keys()) {
      const { body } = pointerTo('payloads', `requests/${index}`);
      const ids = host.send([body, body, lookup(0), lookup(1)]);
      await host.become('deleted', ids);
      expect(host.receives(ids.slice(2))).toEqual([1, 1]);
    }

    expect(host.peakBytes()).toBeLessThan(0.8 * MEMORY_MB * MIB);
  }, 120_000);

  it.each(HOSTS)(
    '%s goes on when a slow store has taken results, however many wait for it',
    async (name) => {
      // An invocation that stood still would end in ten minutes.
      const host = await hosts.start(name, { models: LOOKUP, timeoutSeconds: 600 });
      const slowly = async () => void (await sleep(1_000));
      hosts.intercept(({ operation }) => (operation === 'SendMessageBatch' ? slowly() : undefined));
      const packed = Array.from({ length: 1_000 }, () => ({ instances: [0] }));
      const ids = host.send(Array.from({ length: 200 }, () => packed));
      await host.become('deleted', ids);

      expect(host.receives(ids)).toEqual(ids.map(() => 1));
    },
    60_000,
  );

  it('the function starts no more runs while 4 MiB of results are not written', async () => {
    const host = await hosts.start('the function', {
      models: {
        'long/1/model.onnx': identityModel('INT64', ['batch', 1]),
        'long/config.json': { transform: 'transform.mjs', maxBatchRows: 1 },
        'long/transform.mjs': `export const decode = ({ at }) => [{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [at] }];
          export const encode = () => 'x'.repeat(512 * 1024);`,
      },
      environment: { BATCHSCORE_LOG_LEVEL: 'debug' },
    });
    const gate = closedGate();
    hosts.intercept(({ operation, queue }) =>
      operation === 'SendMessageBatch' && queue === host.results ? gate.opened.then(() => undefined) : undefined,
    );
    const ids = host.send(Array.from({ length: 60 }, (_, at) => ({ at })));
    const runs = () => host.printed().split('"message":"micro-batch"').length - 1;
    while (runs() < 8) await aMoment();
    for (let moment = 0; moment < 60; moment++) await aMoment();

    expect(runs()).toBeLessThan(16);
    gate.open();
    await host.become('deleted', ids);
  });

  it.each(HOSTS)('%s splits a run that does not fit into memory, and plans later ones smaller', async (name) => {
    const host = await hosts.start(name, {
      models: { 'greedy/1/model.onnx': greedyModel(), 'greedy/config.json': { batching: 'trust', warmup: false } },
      environment: { BATCHSCORE_LOG_LEVEL: 'debug', BATCHSCORE_WINDOW_SECONDS: '0.2' },
    });
    const request = (value: number) => ({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [value] }] });
    const rowsOfRuns = () =>
      Array.from(
        host.printed().matchAll(/^\{.*"message":"micro-batch".*$/gm),
        ([line]): number => JSON.parse(line).rows,
      );
    const first = await host.answers(host.send(Array.from({ length: 8 }, (_, index) => request(index))));
    expect(first.map(({ outputs }) => outputs?.[0]?.data[0])).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    const before = rowsOfRuns().length;
    await host.answers(host.send(Array.from({ length: 8 }, (_, index) => request(index))));

    const later = rowsOfRuns().slice(before);
    expect(later.length).toBeGreaterThan(0);
    expect(Math.max(...later)).toBeLessThan(4);
  });

  it.each(HOSTS)(
    '%s answers a request of a packed message alone with an error that alone does not fit',
    async (name) => {
      const host = await hosts.start(name, {
        models: { 'greedy/1/model.onnx': greedyModel(), 'greedy/config.json': { batching: 'alone', warmup: false } },
      });
      const request = (rows: number) => ({
        inputs: [{ name: 'x', datatype: 'FP32', shape: [rows, 1], data: Array(rows).fill(rows) }],
      });
      const [id = ''] = host.send([[request(1), request(4), request(2)]]);
      await host.become('deleted', [id]);

      const answers = host.written().filter(({ message_id }) => message_id === id);
      expect(answers.map(({ code, outputs }) => code ?? outputs?.[0]?.data)).toEqual([[1], 'OUT_OF_MEMORY', [2, 2]]);
    },
  );

  const NUMBERS = `[${repeatedTimes('1', 10_000)}]`;
  const EMPTY = `[${repeatedTimes('{"inputs":[]}', 10_000)}]`;
  const LISTS = `[${repeatedTimes(`{"x":[${repeatedTimes('[]', 17)},${repeatedTimes('1', 19)}]}`, 10_000)}]`;

  it.each([
    ['numbers, on a standard queue', NUMBERS, false],
    ['numbers, on a FIFO queue', NUMBERS, true],
    ['empty lists of inputs', EMPTY, false],
    ['lists of lists', LISTS, false],
  ])('requests that are refused are errors no faster than these are written: %s', async (_, body, fifo) => {
    const gate = closedGate();
    let offered = 0;
    const before = (results: readonly Result[]) => {
      for (const { body: errors } of results) offered += errors.length;
      return gate.opened;
    };
    const records = fifo
      ? fifoRecords(Array.from({ length: 60 }, (__, index) => [`${index}`, body]))
      : standardRecords(Array(60).fill(body));

    const { scoring, decodedAll, turns } = watchedScoring(records, before, enoughTime());
    expect(await turns(5_000)).toBeLessThan(100 * MIB);
    expect([offered > MIB, decodedAll()]).toEqual([true, false]);
    expect(offered).toBeLessThan(16 * MIB);
    gate.open();
    const kept = (await scoring).map((outcome) => (outcome.status === 'answered' ? outcome.failures : []));
    expect(kept.map(({ length }) => length)).toEqual(Array(60).fill(10_000));
    expect(kept.map((failures) => new Set(failures).size)).toEqual(Array(60).fill(1));
  });

  it('bodies that point to others have no room that these wait for', async () => {
    const payloads = { read: async () => NUMBERS };
    const pointers = Array(60).fill(pointerBody({ bucket: 'payloads', key: 'k'.repeat(1_000) }));
    const outcomes = await scoreRecords(standardRecords(pointers), scoringDependencies({ payloads }), enoughTime());
    expect(outcomes.map((outcome) => outcome.status === 'answered' && outcome.requests)).toEqual(
      Array(60).fill(10_000),
    );
  });

  it.each([
    ['wait to be decoded', NUMBERS, 1_000, undefined],
    ['wait for a model', '{}', 10, new Promise<never>(() => {})],
    ['are read', EMPTY, 10, undefined],
    ['are decoded', LISTS, 10, undefined],
  ])('bodies that %s when time is over are decoded no further', async (_, body, before, model) => {
    const end = new AbortController();
    const untilTheEnd = (_: readonly Result[], signal: AbortSignal) => waitOrAbort(new Promise(() => {}), signal);
    const time = { remainingMs: () => 10_000, signal: end.signal };
    const records = standardRecords(Array(250).fill(body));

    const { scoring, decodedAll, decodedRequests, turns } = watchedScoring(records, untilTheEnd, time, model);
    await turns(before);
    const decoded = decodedRequests();
    expect([decoded < 100_000, decodedAll()]).toEqual([true, false]);
    end.abort();
    await scoring;
    expect(await turns(10)).toBeLessThan(100 * MIB);
    while (!decodedAll()) await turns(10);
    expect(decodedRequests()).toBe(decoded);
  });

  it.each([
    ['on a standard queue', ''],
    ['on a FIFO queue', '.fifo'],
  ])('of payloads that are larger together than 16 MiB, few are read before they are scored: %s', async (_, suffix) => {
    const bytes = 6 * MIB;
    const bucket = await s3.bucket();
    await s3.put(bucket, 'requests/padded', REQUEST.padEnd(bytes));
    const heldAtReads: number[] = [];
    let [read, scored] = [0, 0];
    // A payload that waits for room on a busy machine is not to be read again: each read is counted.
    const payloads = s3.client(undefined, CLIENT_PATIENCE);
    watchReads(payloads, () => {
      read += 1;
      heldAtReads.push(read - scored);
    });
    const telemetry = recordingTelemetry();
    const microBatch = ({ requests }: { readonly requests: number }) => {
      scored += requests;
    };
    const where = { sqs: sqs.client(), requestQueueUrl: sqs.queue(), resultQueueUrl: sqs.queue() };
    const composition = await composed(
      where,
      { ...telemetry, observer: { ...telemetry.observer, microBatch } },
      { variables: { BATCHSCORE_PAYLOAD_BUCKET: bucket }, s3: payloads },
    );
    const records = Array.from({ length: 10 }, () => {
      const record = pointerTo(bucket, 'requests/padded');
      const attributes = { ...record.attributes, ...(suffix === '' ? {} : { MessageGroupId: 'group' }) };
      return { ...record, eventSourceARN: `${record.eventSourceARN}${suffix}`, attributes };
    });

    expect(await invoke(createHandler(composition), records)).toEqual({ batchItemFailures: [] });
    expect(heldAtReads).toHaveLength(records.length);
    // The room of what was scored is free before its micro-batch, as large at most, is reported.
    expect(Math.max(...heldAtReads) * bytes).toBeLessThanOrEqual(2 * 16 * MIB);
  });

  it.each([
    ['take all places of those that are read', { slow: 20, quick: 20, announcedBytes: REQUEST.length, mostReads: 1 }],
    ['of which one takes all the memory for payloads', { slow: 1, quick: 5, announcedBytes: 16 * MIB, mostReads: 3 }],
  ])('payloads that trickle, and %s, go back, and those behind them are scored', async (_, scene) => {
    const { slow, quick, announcedBytes, mostReads } = scene;
    const bucket = await s3.bucket();
    await s3.put(bucket, 'requests/quick', REQUEST);
    const dripped: string[] = [];
    const step = trickling(announcedBytes, (path) => dripped.push(path));
    const { endpoint } = await s3.front(...Array<Step>(100).fill(step));
    const where = { sqs: sqs.client(), requestQueueUrl: sqs.queue(), resultQueueUrl: sqs.queue() };
    const composition = await composed(where, recordingTelemetry(), {
      variables: { BATCHSCORE_PAYLOAD_BUCKET: bucket, BATCHSCORE_MAX_PAYLOAD_BYTES: String(32 * MIB) },
      s3: s3.client({ endpoint }),
    });
    const held = Array.from({ length: slow }, (__, index) => pointerTo(bucket, `requests/slow-${index}`));
    const behind = Array.from({ length: quick }, () => pointerTo(bucket, 'requests/quick'));

    // Far longer than a read may take; what goes on behind a slow object is done long before.
    expect(await invoke(createHandler(composition), [...held, ...behind], 55_000)).toEqual(failuresOf(...held));
    const results = (await sqs.drain(where.resultQueueUrl)).map(({ Body = '' }) => JSON.parse(Body).message_id);
    expect(results.toSorted()).toEqual(behind.map(({ messageId }) => messageId).toSorted());
    // While others wait for a place it is not read again; else it is once, and once more where memory came late.
    expect(dripped.filter((path) => path.includes('/slow-0')).length).toBeLessThanOrEqual(mostReads);
  });
});

/** Scores with a writer that is held, and says how far decoding has come. */
function watchedScoring(
  records: readonly MessageRecord[],
  before: MemoryWriterOptions['before'],
  time: TimeLimit,
  model: MaybePromise<Model> = lineModel(),
) {
  let decodedRequests = 0;
  const find = () => {
    decodedRequests += 1;
    return model;
  };
  const deps = scoringDependencies({ writer: memoryWriter({ before }), models: { find } });
  let decodedAll = false;
  const decoded = () => {
    decodedAll = true;
  };
  const heapBytes = process.memoryUsage().heapUsed;
  return {
    scoring: scoreRecords(records, { ...deps, observer: { ...deps.observer, decoded } }, time),
    decodedAll: () => decodedAll,
    decodedRequests: () => decodedRequests,
    /** Lets the event loop take so many turns. @returns by how many bytes the heap was larger at most */
    async turns(many: number): Promise<number> {
      let peakBytes = 0;
      for (let turn = 0; turn < many; turn++) {
        await whatCanHappen();
        peakBytes = Math.max(peakBytes, process.memoryUsage().heapUsed);
      }
      return peakBytes - heapBytes;
    },
  };
}

/** Tells of every payload whose first byte is read. */
function watchReads(client: S3Client, onRead: () => void): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      const answer = await next(args);
      const output = answer.output as GetObjectCommandOutput;
      const { Body } = output;
      if (Body instanceof Readable) {
        const watched = async function* () {
          onRead();
          yield* Body;
        };
        // One that is let go before its first byte is read.
        const letGo = () => Body.on('error', () => {}).destroy();
        output.Body = Readable.from(watched()).on('close', letGo) as never;
      }
      return answer;
    },
    { step: 'initialize' },
  );
}

/** S3 that gives one byte a second of what has `slow` in its key, and all else as it is, once such a byte has come. */
function trickling(announcedBytes: number, onFirst: (path: string) => void): Step {
  const begun = Promise.withResolvers<void>();
  return async ({ path, response, reach }) => {
    if (!path.includes('/slow-')) {
      await begun.promise;
      const { status, headers, body } = await reach();
      response.writeHead(status, headers).end(body);
      return;
    }
    response.writeHead(200, { 'content-length': String(announcedBytes) });
    const drip = setInterval(() => response.write(' ', () => begun.resolve()), 1_000);
    const first = setTimeout(() => onFirst(path), 1_000);
    response.on('close', () => {
      clearInterval(drip);
      clearTimeout(first);
    });
  };
}
