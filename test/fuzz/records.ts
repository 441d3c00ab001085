import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SQSRecord } from 'aws-lambda';
import type { Random } from '../../bench/workload/random.ts';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import { createS3Client } from '../../lambda/aws/awsClients.ts';
import { HOST_PATIENCE } from '../../lambda/aws/sqsWire.ts';
import { ERROR_CODES, type ErrorCode } from '../../lambda/core/failure.ts';
import { isObject } from '../../lambda/core/json.ts';
import { SILENT } from '../../lambda/core/observer.ts';
import { parsePointer, pointerBody } from '../../lambda/core/record.ts';
import type { Datatype } from '../../lambda/core/tensor.ts';
import { compose } from '../../lambda/hosts/compose.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler } from '../../lambda/hosts/createHandler.ts';
import { float, ints, model, node } from '../helpers/graph.ts';
import { identityModel, lookupModel } from '../helpers/onnxModels.ts';
import { blownUp, mutated, mutateJson, mutateText, pick, rarely } from './mutate.ts';
import { putFiles, type Target } from './target.ts';

const BUCKET = 'payload-bucket';
const QUIET = { sessionOptions: { logSeverityLevel: 4 } };
const LINE = model(
  'x FP32[batch,1]',
  'y FP32[batch,1]',
  [node('Mul', 'x two', 'double'), node('Add', 'double one', 'y')],
  [float('two', 2), float('one', 1)],
);
const STATE = model('x FP32[batch,2]; s FP32[2,batch,2]', 'y FP32[batch,2]; t FP32[2,batch,2]', [
  node('Neg', 'x', 'y'),
  node('Abs', 's', 't'),
]);
const ROWS = model(
  'a INT64[batch,?]; b FP32[batch]',
  'y INT64[batch,?]; first INT64[batch]',
  [node('Identity', 'a', 'y'), node('ReduceMax', 'a axis', 'first', { keepdims: 0 })],
  [ints('axis', 1)],
);
const DATATYPES: readonly Datatype[] = ['FP32', 'FP16', 'FP64', 'INT64', 'UINT64', 'INT8', 'UINT16', 'BOOL', 'BYTES'];

interface Input {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
}

/** The models that requests mean: their files, and the inputs of a request of `rows` rows. */
const MODELS: Readonly<
  Record<string, readonly [bytes: Uint8Array, config: object, (rows: number, length: number) => Input[]]>
> = {
  line: [LINE, {}, (rows) => [{ name: 'x', datatype: 'FP32', shape: [rows, 1] }]],
  lookup: [lookupModel(), {}, (rows) => [{ name: 'index', datatype: 'INT64', shape: [rows] }]],
  state: [
    STATE,
    { batchAxis: { s: 1, t: 1 } },
    (rows) => [
      { name: 'x', datatype: 'FP32', shape: [rows, 2] },
      { name: 's', datatype: 'FP32', shape: [2, rows, 2] },
    ],
  ],
  rows: [
    ROWS,
    { maxBatchRows: 8 },
    (rows, length) => [
      { name: 'a', datatype: 'INT64', shape: [rows, length] },
      { name: 'b', datatype: 'FP32', shape: [rows] },
    ],
  ],
  ragged: [
    identityModel('INT64', ['batch', 'length']),
    { ragged: { axis: 'length', pad: { x: 0 } } },
    (rows, length) => [{ name: 'x', datatype: 'INT64', shape: [rows, length] }],
  ],
  ...Object.fromEntries(
    DATATYPES.map((datatype) => [
      datatype,
      [identityModel(datatype, ['batch', 'n']), {}, (rows, length) => [{ name: 'x', datatype, shape: [rows, length] }]],
    ]),
  ),
};

function element(datatype: Datatype, random: Random): unknown {
  if (datatype === 'BOOL') return rarely(random, 2);
  if (datatype === 'BYTES') return pick(random, ['', 'a', 'grüß', 'x'.repeat(random.below(40)), '\u0001\n"', '😀']);
  if (datatype.startsWith('FP')) return rarely(random, 30) ? 'NaN' : random.below(2000) / 8 - 100;
  return datatype.startsWith('U') || rarely(random, 2) ? random.below(3) : -random.below(100);
}

function nested(data: readonly unknown[], [size = 1, ...inner]: readonly number[]): unknown {
  const each = data.length / size;
  if (inner.length === 0) return data;
  return Array.from({ length: size }, (_, at) => nested(data.slice(at * each, (at + 1) * each), inner));
}

/** A valid request, in one of the forms of docs/message-format.md. */
function request(random: Random, name = pick(random, Object.keys(MODELS))): Record<string, unknown> {
  const [, , inputsOf] = MODELS[name] as (typeof MODELS)[string];
  const inputs = inputsOf(1 + random.below(3), 1 + random.below(4)).map((input) => {
    const count = input.shape.reduce((product, size) => product * size, 1);
    return { ...input, data: Array.from({ length: count }, () => element(input.datatype, random)) };
  });
  const head = { ...(rarely(random, 2) && { id: `i-${random.below(100)}` }), model_name: name };
  const [only] = inputs;
  const form = random.below(4);
  if (form === 1 && inputs.length === 1 && only !== undefined) {
    return { ...head, instances: only.shape.length === 1 ? only.data : nested(only.data, only.shape) };
  }
  if (form === 2 && inputs.every(({ datatype }) => datatype === 'FP32')) {
    const raw = inputs.map(({ data }) => Buffer.from(Float32Array.from(data, Number).buffer).toString('base64'));
    return { ...head, inputs: inputs.map(({ data: _, ...input }) => input), raw_input_contents: raw };
  }
  const shaped = form === 3 ? inputs.map((one) => ({ ...one, data: nested(one.data, one.shape) })) : inputs;
  const parameters = rarely(random, 4) && { parameters: { binary_data_output: rarely(random, 2) } };
  return { ...head, inputs: shaped, ...parameters };
}

/** A body: one request or several alike, changed as values, as text, both or not at all; some behind a pointer. */
function body(random: Random): string {
  const name = pick(random, Object.keys(MODELS));
  const few = rarely(random, 3) ? 1 + random.below(6) : 0;
  const value = few === 0 ? request(random, name) : Array.from({ length: few }, () => request(random, name));
  if (rarely(random, 200)) return blownUp(JSON.stringify(value), random);
  const kind = random.below(10);
  const changed = kind < 5 ? mutated<unknown>(value, random, mutateJson) : value;
  const text = JSON.stringify(changed) ?? '';
  const broken = kind > 3 && kind < 9 ? mutated(text, random, mutateText) : text;
  return rarely(random, 12) ? pointer(broken, random) : broken;
}

/** The object server finds the body in the key. */
function pointer(text: string, random: Random): string {
  const key = `requests/${Buffer.from(text).toString('base64url')}`.slice(0, 1024);
  const whole = pointerBody({ bucket: BUCKET, key });
  const kind = random.below(4);
  if (kind === 0) return JSON.stringify(mutated<unknown>(JSON.parse(whole), random, mutateJson)) ?? '';
  return kind === 1 ? mutated(whole, random, mutateText) : whole;
}

/** What SQS says beside a body: much of it is up to the producer. */
function attributes(random: Random): Pick<SQSRecord, 'attributes' | 'messageAttributes' | 'eventSourceARN'> {
  const group = rarely(random, 4) && { MessageGroupId: mutateText('group-1', random) };
  const name = mutateText('ExtendedPayloadSize', random);
  const value = { stringValue: mutateText('12', random), dataType: pick(random, ['Number', 'String', 'Binary']) };
  return {
    attributes: {
      ApproximateReceiveCount: rarely(random, 4) ? `${1 + random.below(6)}` : '1',
      SentTimestamp: rarely(random, 8) ? mutateText('1545082649183', random) : '1545082649183',
      SenderId: mutateText('AIDAIENQZJOLO23YVJ4VO', random),
      ApproximateFirstReceiveTimestamp: '1545082649185',
      ...group,
    },
    messageAttributes: rarely(random, 3) ? { [name]: { ...value, dataType: value.dataType as 'String' } } : {},
    eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:requests',
  };
}

type Sent = Pick<SQSRecord, 'messageId' | 'body' | 'attributes' | 'messageAttributes' | 'eventSourceARN'>;

/**
 * Records through the function's handler, composed as for Lambda, with real models: an invocation of hostile records has
 * a sound one among them. Each answer is compared with the answer to the record alone.
 */
export async function openRecords(): Promise<Target> {
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-fuzz-'));
  const files = Object.entries(MODELS).flatMap(([name, [bytes, config]]) => [
    [`${name}/1/model.onnx`, bytes] as const,
    [`${name}/config.json`, JSON.stringify({ ...QUIET, ...config })] as const,
  ]);
  await putFiles(directory, Object.fromEntries(files));
  const objects = createServer((incoming, outgoing) => {
    const [, key] = /^\/[^/]+\/requests\/([\w-]*)/.exec(incoming.url ?? '') ?? [];
    outgoing.writeHead(key === undefined ? 404 : 200).end(key === undefined ? '' : Buffer.from(key, 'base64url'));
  }).listen(0, '127.0.0.1');
  await once(objects, 'listening');
  const s3 = createS3Client(HOST_PATIENCE, {
    region: 'us-east-1',
    endpoint: `http://127.0.0.1:${(objects.address() as AddressInfo).port}`,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    forcePathStyle: true,
  });
  const problems: unknown[] = [];
  const results = createResultQueue();
  const composition = await compose(
    loadConfig({
      BATCHSCORE_MODELS_DIR: directory,
      BATCHSCORE_PRELOAD: 'true',
      BATCHSCORE_REQUEST_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests',
      BATCHSCORE_RESULT_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/results',
      BATCHSCORE_PAYLOAD_BUCKET: BUCKET,
      BATCHSCORE_MAX_REQUEST_ROWS: '1000',
      BATCHSCORE_MAX_REQUESTS_PER_MESSAGE: '1000',
    }),
    {
      clients: { sqs: results.sqs, s3: () => s3 },
      telemetry: {
        observer: { ...SILENT, problem: (error) => void problems.push(error) },
        outcomes: (outcomes) => {
          for (const outcome of outcomes) if (outcome.status === 'retry') problems.push(outcome.failure.message);
        },
        middlewares: [],
      },
      warn: () => {},
    },
  );
  const handler = createHandler(composition);
  const invoke = async (sent: readonly Sent[]) => {
    const Records = sent.map((one): SQSRecord => ({ ...RECORD, receiptHandle: one.messageId, ...one }));
    const { batchItemFailures } = await handler({ Records }, createLambdaContext(Date.now() + 60_000));
    return { answers: results.take(), retried: new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)) };
  };
  const counts: Record<string, number> = {};
  return {
    answers: counts,
    headLines: 1,
    make: (random) => `${JSON.stringify(attributes(random))}\n${body(random)}`,
    async check(inputs, random) {
      const value = random.below(1000);
      const sent = inputs.map((input, index): Sent => {
        const [beside = '', ...lines] = input.split('\n');
        return { messageId: `m-${index}`, body: lines.join('\n'), ...JSON.parse(beside) };
      });
      const sound = { ...(sent[0] as Sent), messageId: 'sound', body: lineRequest(value) };
      const { answers, retried } = await invoke(sent.toSpliced(random.below(sent.length + 1), 0, sound));
      const isAlone = rarely(random, 8) || inputs.length === 1;
      const found: (string | undefined)[] = [];
      for (const one of sent) {
        for (const [, code = 'scores'] of (answers.get(one.messageId)?.[0] ?? '').matchAll(
          /"code":"(\w+)"|"(?:outputs|predictions)":/g,
        )) {
          counts[code] = (counts[code] ?? 0) + 1;
        }
        const problem = retried.has(one.messageId)
          ? `it was handed back: ${problems.map(String).join('; ')}`
          : wrongWith(one, answers.get(one.messageId) ?? []);
        found.push(problem ?? (isAlone ? await differsAlone(one, answers.get(one.messageId)?.[0], invoke) : undefined));
      }
      const answer: unknown = JSON.parse(answers.get('sound')?.[0] ?? 'null');
      const isHarmed = JSON.stringify(isObject(answer) && answer.predictions) !== `[[${2 * value + 1}]]`;
      if (isHarmed)
        found[0] ??= `the sound neighbour was not answered with ${2 * value + 1}: ${JSON.stringify(answer)}`;
      if (problems.length > 0) found[0] ??= `a bug was logged: ${problems.map(String).join('; ')}`;
      problems.length = 0;
      return found;
    },
    async close() {
      await composition.close();
      s3.destroy();
      objects.close();
      await rm(directory, { recursive: true });
    },
  };
}

function lineRequest(value: number): string {
  return JSON.stringify({ model_name: 'line', instances: [[value]] });
}

/** What is wrong with the answer to a record, whatever its body is. */
function wrongWith({ messageId, body }: Sent, answers: readonly string[]): string | undefined {
  const [text, ...more] = answers;
  if (text === undefined || more.length > 0) return `expected one answer, got ${answers.length}`;
  const answer: unknown = JSON.parse(text);
  const given = parsed(body);
  for (const one of Array.isArray(answer) ? answer : [answer]) {
    const isScore = isObject(one) && ('outputs' in one || 'predictions' in one);
    const isError = isObject(one) && isPermanent(one.code) && typeof one.error === 'string';
    if (isScore === isError || one.message_id !== messageId) return `expected scores or an error, got ${text}`;
    if (isError && !/expected|failed|[Nn]on-zero status/.test(String(one.error)))
      return `an error that says nothing: ${text}`;
  }
  const isPointer = given !== undefined && parsePointer(given) !== undefined;
  const saysNoJson = isObject(answer) && answer.code === 'INVALID_JSON';
  if (given === undefined && !saysNoJson && !/at most/.test(text))
    return `the body is not JSON, and was answered ${text}`;
  if (given !== undefined && saysNoJson && !isPointer) return `the body is JSON, and was answered ${text}`;
  const requests = Array.isArray(given) && !isPointer ? given.length : undefined;
  if (Array.isArray(answer) && !isPointer && answer.length !== requests)
    return `expected ${requests} answers, got ${text}`;
  return undefined;
}

function isPermanent(code: unknown): boolean {
  return typeof code === 'string' && Object.hasOwn(ERROR_CODES, code) && ERROR_CODES[code as ErrorCode] === 'permanent';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type Invoke = (sent: readonly Sent[]) => Promise<{ readonly answers: ReadonlyMap<string, readonly string[]> }>;

/** Neither other records nor the other requests of its message may change an answer: read as a template or in full. */
async function differsAlone(one: Sent, answer: string | undefined, invoke: Invoke): Promise<string | undefined> {
  const alone = (await invoke([one])).answers.get(one.messageId)?.[0];
  if (alone !== answer) return `answered ${answer} among others, and ${alone} alone`;
  const requests = parsed(one.body);
  const answers: unknown = JSON.parse(answer ?? 'null');
  if (!Array.isArray(requests) || !Array.isArray(answers) || parsePointer(requests) !== undefined) return undefined;
  const texts = requests.map(textOf);
  const singles = texts.map((text = '0', index) => ({ ...one, messageId: `${index}`, body: text }));
  const bySingle = (await invoke(singles)).answers;
  for (const [index, packed] of answers.entries()) {
    const [text = 'null'] = bySingle.get(`${index}`) ?? [];
    if (texts[index] === undefined) continue;
    const same = JSON.stringify(plain(JSON.parse(text))) === JSON.stringify(plain(packed));
    if (!same) return `request ${index} was answered ${JSON.stringify(packed)} in its message, and ${text} alone`;
  }
  return undefined;
}

/** Undefined of an array, which alone is a packed message or a pointer, and of what is nested too deeply to be written. */
function textOf(request: unknown): string | undefined {
  if (Array.isArray(request)) return undefined;
  try {
    return JSON.stringify(request);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Without what says where it came from. */
function plain(answer: Record<string, unknown> & { code?: string }) {
  const { message_id: _, error: __, ...rest } = answer;
  return rest;
}

interface Command {
  readonly input: {
    readonly Entries?: readonly {
      readonly Id?: string;
      readonly MessageBody?: string;
      readonly MessageAttributes?: Record<string, { StringValue?: string }>;
    }[];
  };
}

/** A result queue that refuses what SQS refuses. @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html */
function createResultQueue() {
  let answers = new Map<string, string[]>();
  const send = async ({ input: { Entries = [] } }: Command) => {
    for (const { MessageBody, MessageAttributes } of Entries) {
      if (MessageBody === undefined) continue;
      if (MessageBody === '' || /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u.test(MessageBody)) {
        throw new Error(`InvalidMessageContents: ${JSON.stringify(MessageBody.slice(0, 200))}`);
      }
      const messageId = MessageAttributes?.messageId?.StringValue ?? '';
      answers.set(messageId, [...(answers.get(messageId) ?? []), MessageBody]);
    }
    return { Successful: Entries.map(({ Id }) => ({ Id })), Failed: [] };
  };
  return {
    sqs: { send: send as never },
    take(): ReadonlyMap<string, readonly string[]> {
      const taken = answers;
      answers = new Map();
      return taken;
    },
  };
}

const RECORD = { md5OfBody: '', eventSource: 'aws:sqs', awsRegion: 'eu-central-1' };
