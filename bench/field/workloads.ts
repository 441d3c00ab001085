/** Three workloads for speed, and the models and requests of the faults. */
import { readFileSync } from 'node:fs';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { type Constant, DataType, encodeModel, type GraphNode } from '../workload/encodeModel.ts';
import { drawMessages, encodeBody, type Message } from '../workload/messages.ts';
import { type InputTensor, type Scenario, scenarioNamed } from '../workload/scenarios.ts';

/** Model with its requests, the maximum rows per run, and the output to compare. */
export interface Workload extends Scenario {
  readonly maxBatch: number;
  readonly output: string;
}

const DIGITS = new URL('../../models/digits/1/model.onnx', import.meta.url);

export const WORKLOADS: readonly Workload[] = [
  {
    ...scenarioNamed('mlp-small'),
    name: 'digits',
    encodeModel: () => readFileSync(DIGITS),
    drawInputs: (random) => [
      floats(
        'image',
        Float32Array.from({ length: 64 }, () => random.below(17)),
      ),
    ],
    maxBatch: 128,
    output: 'probabilities',
  },
  { ...scenarioNamed('encoder'), maxBatch: 32, output: 'embedding' },
  { ...scenarioNamed('convnet'), maxBatch: 32, output: 'logits' },
];

function floats(name: string, data: Float32Array): InputTensor {
  return { name, datatype: 'FP32', shape: [1, data.length], data };
}

/** Returns request bodies of a workload with `rows` rows each. */
export function bodiesOf(workload: Workload, count: number, rows = 1): string[] {
  const messages = [...drawMessages(workload, count * rows)];
  return Array.from({ length: count }, (_, index) => bodyOf(joined(messages.slice(index * rows, (index + 1) * rows))));
}

export function bodyOf(message: Message): string {
  return encodeBody(message, 'json');
}

function joined(messages: readonly Message[]): Message {
  const [first] = messages as [Message];
  if (messages.length === 1) return first;
  const inputs = first.inputs.map(({ name, datatype, shape: [, size, ...rest] }, index): InputTensor => {
    const data = Float32Array.from(messages.flatMap(({ inputs }) => Array.from(inputs[index]?.data as Float32Array)));
    return { name, datatype, shape: [messages.length, size, ...rest], data };
  });
  return { ...first, inputs };
}

/** Opens ONNX Runtime alone, to score requests one by one. */
export async function openOracle({ encodeModel, output }: Workload) {
  const session = await InferenceSession.create(encodeModel());
  return {
    async alone({ inputs }: Message): Promise<number[]> {
      const tensor = ({ data, shape }: InputTensor): Tensor =>
        data instanceof BigInt64Array ? new Tensor('int64', data, shape) : new Tensor('float32', data, shape);
      const feeds = Object.fromEntries(inputs.map((input) => [input.name, tensor(input)]));
      return Array.from((await session.run(feeds))[output]?.data as Float32Array, Number);
    },
    close: () => session.release(),
  };
}

const TOLERANCE = 1e-4;

/** Returns true if two answers are equal except for rounding. */
export function agree(a: readonly number[], b: readonly number[]): boolean {
  const near = (x: number, y: number): boolean => Object.is(x, y) || Math.abs(x - y) <= TOLERANCE * (1 + Math.abs(y));
  return a.length === b.length && a.every((x, index) => near(x, b[index] ?? Number.NaN));
}

/** Model whose rows depend on each other: it subtracts their mean. */
const MIXING: Workload = {
  name: 'mean',
  messages: 0,
  encodeModel: () =>
    encodeModel({
      inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 4] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 4] }],
      nodes: [node('ReduceMean', 'x axis', 'mean'), node('Sub', 'x mean', 'y')],
      constants: [{ name: 'axis', dataType: DataType.INT64, dims: [1], int64Data: [0] }],
    }),
  drawInputs: (random) => [
    floats(
      'x',
      Float32Array.from({ length: 4 }, () => 20 * random.next() ** 4 - 1),
    ),
  ],
  maxBatch: 32,
  output: 'y',
};

const int64 = (name: string, value: number | bigint): Constant => {
  return { name, dataType: DataType.INT64, dims: [], int64Data: [Number(value)] };
};
const node = (op: string, inputs: string, outputs: string, attributes: GraphNode['attributes'] = {}): GraphNode => {
  const names = inputs.split(' ').map((name) => (name === '-' ? '' : name));
  return { op, inputs: names, outputs: outputs.split(' '), attributes };
};

/** Values that make the model loop: for some seconds, and endlessly. */
const SLOW = 7_001n;
const ENDLESS = 7_002n;

/** Model that returns int64 `index` `[batch, 1]`, after a loop if a row requests it. */
const TURNING: Workload = {
  name: 'turning',
  messages: 0,
  encodeModel: () => {
    const asksFor = (what: string): GraphNode[] => [
      node('Equal', `index ${what}`, `is_${what}`),
      node('Cast', `is_${what}`, `each_${what}`, { to: DataType.INT64 }),
      node('ReduceMax', `each_${what}`, `any_${what}`, { keepdims: 0 }),
      node('Mul', `any_${what} turns_${what}`, `number_${what}`),
    ];
    const scalar = (name: string, datatype: 'BOOL' | 'INT64') => ({ name, datatype, shape: [] });
    const body = {
      inputs: [scalar('turn', 'INT64'), scalar('goes_on', 'BOOL'), scalar('before', 'INT64')],
      outputs: [scalar('still_goes_on', 'BOOL'), scalar('after', 'INT64')],
      nodes: [node('Identity', 'goes_on', 'still_goes_on'), node('Add', 'before one', 'after')],
      constants: [int64('one', 1)],
    };
    return encodeModel({
      inputs: [{ name: 'index', datatype: 'INT64', shape: ['batch', 1] }],
      outputs: [{ name: 'value', datatype: 'INT64', shape: ['batch', 1] }],
      nodes: [
        ...asksFor('slow'),
        ...asksFor('endless'),
        node('Add', 'number_slow number_endless', 'turns'),
        node('Loop', 'turns - zero', 'count', { body }),
        node('Mul', 'count zero', 'nothing'),
        node('Add', 'index nothing', 'value'),
      ],
      constants: [
        int64('zero', 0),
        int64('slow', SLOW),
        int64('endless', ENDLESS),
        int64('turns_slow', 3_000_000),
        int64('turns_endless', 2 ** 52),
      ],
    });
  },
  drawInputs: (random) => [indexed(BigInt(random.below(100)))],
  maxBatch: 32,
  output: 'value',
};

function indexed(index: bigint): InputTensor {
  return { name: 'index', datatype: 'INT64', shape: [1, 1], data: BigInt64Array.of(index) };
}

const [digits, encoder] = WORKLOADS as readonly [Workload, Workload];

/** Fault among 31 valid requests, whose answers must be the same as alone. */
export interface Fault {
  readonly name: string;
  readonly workload: Workload;
  /** Body that replaces one request. @default all requests are valid */
  readonly culprit?: string;
  /** Numbers of the right answer to that body. @default an error */
  readonly answer?: readonly number[];
  readonly happens?: 'clients leave' | 'server is killed';
}

const bad = (...inputs: InputTensor[]): string => bodyOf({ id: 'bad', inputs, length: 1 });
const unknownToken = ['input_ids', 'attention_mask'].map((name): InputTensor => {
  const data = new BigInt64Array(9).fill(name === 'input_ids' ? 99_999n : 1n);
  return { name, datatype: 'INT64', shape: [1, 9], data };
});

export const FAULTS: readonly Fault[] = [
  { name: 'malformed', workload: digits, culprit: '{"inputs":[{"name":"image"' },
  { name: 'run throws for one row', workload: encoder, culprit: bad(...unknownToken) },
  { name: 'model mixes rows', workload: MIXING },
  { name: 'slow row', workload: TURNING, culprit: bad(indexed(SLOW)), answer: [Number(SLOW)] },
  { name: 'hang', workload: TURNING, culprit: bad(indexed(ENDLESS)) },
  { name: 'clients disconnect', workload: digits, happens: 'clients leave' },
  { name: 'server killed', workload: digits, happens: 'server is killed' },
];
