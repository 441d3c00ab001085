import { gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import type { ErrorCode } from '../../../../lambda/core/failure.ts';
import { isPacked, isRefused } from '../../../../lambda/core/microBatch.ts';
import type { TransformBody } from '../../../../lambda/core/model.ts';
import {
  echoModel,
  lineModel,
  lineRequest,
  type RequestFields,
  repositoryOf,
  sumModel,
  sumRequest,
} from '../../../helpers/scoring.ts';
import { accepted, decode, refusal, sentence } from './refusals.ts';

const LINE = repositoryOf(lineModel());
const SUM = repositoryOf(sumModel());
const BOTH = repositoryOf(lineModel(), lineModel({ version: '2' }), sumModel());
const SUM_OF_ONE = sumRequest([{ left: [1, 2], right: [3, 4], bias: 5 }]);
const X = { name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] };

describe('a body that is no JSON', () => {
  it.each([
    ['empty', ''],
    ['cut off', '{"inputs":['],
    ['a bare NaN', '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[NaN]}]}'],
  ])('refuses one that is %s', async (_, body) => {
    const { code, message } = await refusal(body, LINE);

    expect(code).toBe('INVALID_JSON');
    expect(message).toContain(`body: expected one JSON request, got ${body.length} characters that are not JSON`);
  });

  it('says where it stops being JSON', async () => {
    expect((await refusal('{"id":"a",}', LINE)).message).toContain('at position 10');
  });

  it('does not quote the body, which may be private', async () => {
    for (const body of ['secret', '{"a":secret}', '{"device":"4111",}']) {
      expect((await refusal(body, LINE)).message).not.toMatch(/secret|4111/);
    }
  });
});

describe('JSON that is no request', () => {
  it.each([
    ['a number', '1', '1'],
    ['null', 'null', 'null'],
  ])('refuses %s', async (_, body, got) => {
    expect(sentence(await refusal(body, LINE))).toEqual({ code: 'INVALID_REQUEST', path: 'body', got });
  });

  it('quotes at most one short line of what came', async () => {
    const { message } = await refusal(lineRequest([1], { ['k'.repeat(100_000)]: 1 }), LINE);
    expect(message.length).toBeLessThan(250);
    expect((await refusal(lineRequest([1], { 'a\nb': 1 }), LINE)).message).not.toContain('\n');
  });
});

type Refusal = [title: string, body: RequestFields | string, code: ErrorCode, path: string, got: string];

describe('keys that mean nothing', () => {
  it.each(['mode', 'dtype', 'as', '__proto__', 'constructor'])(
    'refuses %s in a request, an input and an output',
    async (key) => {
      const spoilt = (text: string) => text.replace('{', `{"${key}":{},`);
      const request = JSON.stringify(lineRequest([1]));
      const bodies = [
        spoilt(request),
        request.replace(/\[\{.*\}\]/, spoilt),
        request.replace(/\}$/, `,"outputs":[${spoilt('{"name":"y"}')}]}`),
      ];
      for (const [index, path] of ['body', 'inputs[0]', 'outputs[0]'].entries()) {
        const expected = { code: 'INVALID_REQUEST', path, got: `"${key}"` };
        expect(sentence(await refusal(bodies[index], LINE))).toEqual(expected);
      }
    },
  );

  it.each([
    [{ instances: [[1]], model_nam: 'line' }, 'got "model_nam"; did you mean model_name?'],
    [{ instances: [[1]], inputs: [] }, 'or instances, got "inputs" beside instances; leave one of them out'],
    [{ inputs: [{ ...X, shap: [1, 1] }] }, 'got "shap"; did you mean shape?'],
    [{ inputs: [X], colour: 1 }, 'got "colour"; fix its name or remove it'],
  ])('says what to do about %j', async (body, end) => {
    expect((await refusal(body, LINE)).message.slice(-end.length)).toBe(end);
  });

  const SNS = {
    Type: 'Notification',
    MessageId: '1',
    TopicArn: 'arn:aws:sns:us-east-1:000000000000:t',
    Message: '{"inputs":[]}',
    Timestamp: '2026-01-01T00:00:00Z',
  };
  const EVENT = {
    version: '0',
    id: 'e-1',
    'detail-type': 'order',
    source: 'shop',
    account: '000000000000',
    time: '2026-01-01T00:00:00Z',
    region: 'us-east-1',
    resources: [],
    detail: { inputs: [] },
  };
  const IN_SNS = 'an envelope of SNS; switch on raw message delivery of its subscription';
  const IN_EVENT = 'an event of EventBridge; give the target of its rule an input path, such as $.detail';
  it.each([
    ['SNS', SNS, LINE, `body: expected a request, got ${IN_SNS}`],
    ['EventBridge', EVENT, LINE, `body: expected a request, got ${IN_EVENT}`],
    ['SNS, where no model is the default one', SNS, BOTH, `body: expected a request, got ${IN_SNS}`],
  ])('says how to send without the envelope of %s', async (_, body, models, message) => {
    expect(await refusal(body, models)).toMatchObject({ code: 'INVALID_REQUEST', message });
  });

  it.each([
    ['an event of S3', { Records: [{ eventSource: 'aws:s3', s3: {} }] }, 'an event of S3; start a job'],
    ['a CloudEvent', { specversion: '1.0', type: 't', source: 's', id: '1', data: {} }, 'a CloudEvent; send its data'],
    ['a pointer without its class', { s3BucketName: 'b', s3Key: 'k' }, 'a pointer to S3 without its class; send ["'],
    ['the inputs alone', { x: [1] }, '"x", an input of the model; write {"instances": [{"x": …}]}'],
    [
      'the test event of S3',
      { Service: 'Amazon S3', Event: 's3:TestEvent', Bucket: 'b' },
      'the test event of S3, sent',
    ],
    ['an event of Kinesis', { Records: [{ eventSource: 'aws:kinesis' }] }, 'an event of Kinesis; send what the data'],
    ['a record of a pipe', { eventSource: 'aws:dynamodb', dynamodb: {} }, 'an event of DynamoDB; make a request of'],
    [
      'an event of SQS',
      { Records: [{ eventSource: 'aws:sqs', body: '{}' }] },
      'an event of SQS; send the body of each',
    ],
    ['an event of SNS', { Records: [{ EventSource: 'aws:sns', Sns: {} }] }, 'an event of SNS; send the Sns.Message'],
    [
      'a call of an API',
      { requestContext: {}, headers: {}, body: '{}' },
      'an event of API Gateway; send its body alone',
    ],
    [
      'a CloudEvent of bytes',
      { specversion: '1.0', type: 't', data_base64: 'e30=' },
      'a CloudEvent; send the text that',
    ],
    ['JSON encoded twice', JSON.stringify({ instances: [[1]] }), 'JSON in a JSON string; encode the request once'],
    // It would take many times its memory to look into it.
    [
      'a long list in a string',
      JSON.stringify(Array(30_000).fill({})),
      '"[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}',
    ],
    ['base64 in a string', Buffer.from('{"inputs":[]}').toString('base64'), 'base64; send the text that it encodes'],
    ['an address in a string', 's3://bucket/requests/1', 'the address of an object; send ["software.amazon.'],
    ['a text', 'score this', '"score this"; send an object such as {"instances": [[1, 2]]}'],
    ['a number for its id', { id: 5, instances: [[1]] }, '5; write "5"'],
    ['a list for its id', { id: [5], instances: [[1]] }, 'an array of 1; write a string, or leave it out'],
    ['a name in another case', { modelName: 'line', instances: [[1]] }, '"modelName"; did you mean model_name?'],
  ])('names what it looks like, and what to do: %s', async (_, body, got) => {
    const { code, message } = await refusal(JSON.stringify(body), LINE);
    expect({ code, message }).toEqual({ code: 'INVALID_REQUEST', message: expect.stringContaining(`got ${got}`) });
  });

  it.each([
    ['base64', Buffer.from(' {"inputs":[]}').toString('base64'), 'base64; send the text that it encodes'],
    ['gzip in base64', gzipSync('{"inputs":[]}').toString('base64'), 'gzip in base64; send the text that it holds'],
    ['the address of an object', 's3://bucket/requests/1', 'the address of an object; send ["software.amazon.'],
    [
      'an object of Python',
      "{'instances': [[1.0]], 'parameters': None}",
      'an object as Python prints it; send json.dumps',
    ],
    [
      'several lines',
      '{"instances":[[1]]}\n{"instances":[[2]]}\n',
      'several lines of JSON; send each as a message, or',
    ],
    ['a byte order mark', '\uFEFF{"inputs":[]}', 'a byte order mark in front; write UTF-8 without one'],
  ])('names what it looks like, and what to do: %s', async (_, body, got) => {
    const { code, message } = await refusal(body, LINE);
    expect({ code, message }).toEqual({ code: 'INVALID_JSON', message: expect.stringContaining(`got ${got}`) });
  });

  it.each([
    ['FP32', '3', 'write [3]'],
    ['FP32', 'null', 'write ["NaN"]'],
    ['FP32', '"3"', 'write [3]'],
    ['INT64', 'null', 'write […]'],
    ['BYTES', 'null', 'write [""]'],
    ['BYTES', '"a"', 'write ["a"]'],
    ['BYTES', '3', 'write ["3"]'],
  ] as const)('says how to write a single value of an axis of %s: %s', async (datatype, value, cure) => {
    const models = repositoryOf(echoModel(datatype, [1]));
    const { message } = await refusal(`{"instances":[${value}]}`, models);
    expect(message).toMatch(/^instances\[0\] \('in'\): expected an array of the shape \[1\], got /);
    expect(message.slice(message.indexOf('; ') + 2)).toBe(cure);
  });

  it('does not show the digits of an id that the parser has rounded', async () => {
    for (const id of ['12345678901234567890', '1e400', '1.10']) {
      const { message } = await refusal(`{"id":${id},"instances":[[1]]}`, LINE);
      expect(message).toBe('id: expected a string of at most 1024 characters, got a number; put its digits in quotes');
    }
  });

  it('leaves an envelope to a transform, and says so beside what that throws', async () => {
    const transform = {
      decode({ Message }: TransformBody) {
        if (typeof Message !== 'string') throw new Error('expected a text');
        return [{ name: 'x', datatype: 'FP32' as const, shape: [1, 1], data: [Message.length] }];
      },
    };
    const models = repositoryOf(lineModel({ transform }));
    expect(await accepted(SNS, models)).toMatchObject({ rows: 1 });
    expect(await refusal(EVENT, models)).toMatchObject({
      code: 'TRANSFORM_FAILED',
      message: `expected a text; the body is ${IN_EVENT}`,
    });
  });
});

describe('the id', () => {
  it.each([
    ['a number', 1, '1'],
    ['too long', 'a'.repeat(1025), '1025 characters'],
  ])('is refused when it is %s', async (_, id, got) => {
    const failed = await refusal(lineRequest([1], { id }), LINE);
    expect(sentence(failed)).toEqual({ code: 'INVALID_REQUEST', path: 'id', got });
  });

  it('is kept up to 1024 characters, and may be left out', async () => {
    expect((await accepted(lineRequest([1], { id: 'a'.repeat(1024) }), LINE)).id).toBe('a'.repeat(1024));
    expect((await accepted(lineRequest([1]), LINE)).id).toBeUndefined();
  });

  it('is told of a request that is refused for something else', async () => {
    const refused = { id: 'order-42', failure: expect.objectContaining({ code: 'INVALID_REQUEST' }) };
    expect(await decode({ id: 'order-42', inputs: 1 }, LINE)).toEqual(refused);
  });
});

describe('the model', () => {
  const ofVersion = (model_version: unknown) => lineRequest([1], { model_name: 'line', model_version });
  it.each<Refusal>([
    ['an unknown name', lineRequest([1], { model_name: 'nope' }), 'UNKNOWN_MODEL', 'model_name', '"nope"'],
    ['no name where there is no default', lineRequest([1]), 'UNKNOWN_MODEL', 'model_name', 'none'],
    ['a name that is no string', lineRequest([1], { model_name: 7 }), 'INVALID_REQUEST', 'model_name', '7'],
    ['an unknown version', ofVersion('9'), 'UNKNOWN_VERSION', 'model_version', '"9"'],
    ['a version that is no string', ofVersion(1), 'INVALID_REQUEST', 'model_version', '1'],
  ])('is refused by %s', async (_, body, code, path, got) => {
    expect(sentence(await refusal(body, BOTH))).toEqual({ code, path, got });
  });

  it('is the one that is named, in the version that is named', async () => {
    const { model } = await accepted(lineRequest([1], { model_name: 'line', model_version: '1' }), BOTH);
    expect([model.name, model.version]).toEqual(['line', '1']);
  });
});

describe('the inputs', () => {
  const [left, right, bias] = SUM_OF_ONE.inputs as [object, object, object];
  it.each<Refusal>([
    ['no array', { inputs: { left } }, 'INVALID_REQUEST', 'inputs', 'an object'],
    ['left out', {}, 'INVALID_REQUEST', 'inputs', 'nothing'],
    ['null', { inputs: [null] }, 'INVALID_REQUEST', 'inputs[0]', 'null'],
    ['nameless', { inputs: [{ ...left, name: 1 }] }, 'INVALID_REQUEST', 'inputs[0].name', '1'],
    ['too few', { inputs: [left] }, 'MISSING_INPUT', 'inputs', "no 'right', 'bias'"],
    ['unknown', { inputs: [left, { ...right, name: 'wrong' }, bias] }, 'UNKNOWN_INPUT', 'inputs[1].name', '"wrong"'],
    ['doubled', { inputs: [left, right, bias, left] }, 'DUPLICATE_INPUT', 'inputs[3].name', '"left" again'],
  ])('are refused when they are %s', async (_, body, code, path, got) => {
    expect(sentence(await refusal(body, SUM))).toEqual({ code, path, got });
  });

  it("are put into the model's order, whatever order they came in", async () => {
    const { inputs, rows } = await accepted({ inputs: [bias, right, left] }, SUM);

    expect(rows).toBe(1);
    expect(inputs).toEqual([
      { datatype: 'FP32', shape: [1, 2], data: Float32Array.of(1, 2) },
      { datatype: 'FP32', shape: [1, 2], data: Float32Array.of(3, 4) },
      { datatype: 'INT64', shape: [1], data: BigInt64Array.of(5n) },
    ]);
  });
});

describe('the outputs', () => {
  const SUMS = { name: 'sums' };
  it.each<Refusal>([
    ['no array', { ...SUM_OF_ONE, outputs: 'sums' }, 'INVALID_REQUEST', 'outputs', '"sums"'],
    ['not objects', { ...SUM_OF_ONE, outputs: ['sums'] }, 'INVALID_REQUEST', 'outputs[0]', '"sums"'],
    ['unknown', { ...SUM_OF_ONE, outputs: [{ name: 'sum' }] }, 'UNKNOWN_OUTPUT', 'outputs[0].name', '"sum"'],
    ['doubled', { ...SUM_OF_ONE, outputs: [SUMS, SUMS] }, 'INVALID_REQUEST', 'outputs[1].name', '"sums" again'],
  ])('are refused when they are %s', async (_, body, code, path, got) => {
    expect(sentence(await refusal(body, SUM))).toEqual({ code, path, got });
  });

  it.each([
    ['all of the model where none are asked for', undefined, [0, 1, 2]],
    ['all of the model where an empty list is asked for', [], [0, 1, 2]],
    ['those asked for, in the order asked for', [{ name: 'label' }, { name: 'sums' }], [2, 0]],
  ])('are %s', async (_, outputs, indexes) => {
    expect((await accepted({ ...SUM_OF_ONE, outputs }, SUM)).outputs).toEqual(indexes);
  });
});

describe('a packed message', () => {
  it('is refused as a whole when it is empty', async () => {
    expect(await decode('[]', LINE)).toEqual({
      id: undefined,
      failure: {
        failed: true,
        code: 'INVALID_REQUEST',
        message: 'body: expected at least one request in a packed message, got none; put one into the array',
      },
    });
  });

  it('keeps its order, and refuses a bad request alone, by its place', async () => {
    const body = [lineRequest([1], { id: 'a' }), { id: 'b', inputs: [{ ...X, shape: [1, 2] }] }, lineRequest([2, 3])];
    const requests = await decode(body, LINE);
    if (!isPacked(requests)) throw new Error('expected a packed message');
    const told = requests.map((one) => (isRefused(one) ? [one.id, sentence(one.failure)] : [one.id, one.rows]));
    expect(told).toEqual([
      ['a', 1],
      ['b', { code: 'INVALID_SHAPE', path: '[1].inputs[0].shape', got: '[1, 2]' }],
      [undefined, 2],
    ]);
  });

  it.each([
    ['another packed message', [[lineRequest([1])]], '[0]', 'an array of 1'],
    ['a number', [1], '[0]', '1'],
    ['a request with a bad id', [{ id: 1 }], '[0].id', '1'],
  ])('refuses %s inside it', async (_, body, path, got) => {
    const [request] = [await decode(body, LINE)].flat();
    if (request === undefined || !isRefused(request)) throw new Error('expected a refusal');
    expect(sentence(request.failure)).toEqual({ code: 'INVALID_REQUEST', path, got });
  });
});

describe('expires_at', () => {
  const expiring = (expires_at: unknown): RequestFields => lineRequest([1], { parameters: { expires_at } });

  it.each([
    ['epoch seconds', () => Date.now() / 1000 + 60],
    ['a time of another zone', () => '2199-01-31T12:00:00+05:30'],
    ['a time with a fraction', () => '2199-01-31T12:00:00.5Z'],
  ])('is no reason to refuse a request before that time: %s', async (_, at) => {
    expect((await accepted(expiring(at()), LINE)).rows).toBe(1);
  });

  it.each([
    ['epoch seconds', 1_600_000_000],
    ['two seconds ago', Date.now() / 1000 - 2],
    ['the first second', 0],
    ['before the epoch', -1],
    ['a time', '2020-09-13T12:26:40Z'],
    ['a time of another zone', '2020-09-13T17:56:40+0530'],
  ])('refuses a request past that time, whatever else is in it: %s', async (_, at) => {
    for (const body of [expiring(at), { ...expiring(at), inputs: 'none' }]) {
      const { code, message } = await refusal(body, LINE);
      expect(code).toBe('EXPIRED');
      expect(message).toMatch(
        /^parameters\.expires_at: expected a time that is not over, got one \d+ seconds ago; send/,
      );
    }
  });

  it.each([
    ['milliseconds', Date.now(), String(Date.now()).slice(0, 6)],
    ['a date', '2199-01-31', '"2199-01-31"'],
    ['no zone', '2199-01-31T12:00:00', '"2199-01-31T12:00:00"'],
    ['a month that is none', '2199-13-31T12:00:00Z', '"2199-13-31T12:00:00Z"'],
    ['a number in quotes', '1600000000', '"1600000000"'],
    ['null', null, 'null'],
  ])('is refused if it is no time: %s', async (_, at, got) => {
    const { code, message } = await refusal(expiring(at), LINE);
    expect(code).toBe('INVALID_REQUEST');
    expect(message).toContain(`parameters.expires_at: expected epoch seconds, or a time such as`);
    expect(message).toContain(`got ${got}`);
  });

  it('concerns one request of a packed message, and no other', async () => {
    const packed = await decode([lineRequest([1]), expiring(1), expiring(4e9)], LINE);
    if (!isPacked(packed)) throw new Error('expected a packed body');
    expect(packed.map((one) => isRefused(one) && one.failure.code)).toEqual([false, 'EXPIRED', false]);
  });
});
