import { expect } from '@jest/globals';
import { DATATYPES, type Datatype, elementCount, type Tensor } from '../../../lambda/core/tensor.ts';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import { openSession, type Session } from '../../../lambda/onnx/session.ts';
import { afterThisTest, type OpenedModels } from '../../helpers/openModels.ts';
import {
  enoughTime,
  messageIdOf,
  type Nested,
  nest,
  scoringDependencies,
  sliceAt,
  standardRecords,
} from '../../helpers/scoring.ts';

/** One input of a request, laid out as the model has it. */
export interface Given extends Tensor {
  /** Its batch axis. */
  readonly axis: number;
}

export function given(name: string, axis: number, shape: readonly number[], seed: number): Given {
  const data = Float32Array.from({ length: elementCount(shape) }, (_, index) => Math.sin(seed + 7 * index));
  return { name, datatype: 'FP32', shape, data, axis };
}

export const FORMS = ['flat', 'nested', 'raw', 'instances'] as const;
export type Form = (typeof FORMS)[number];

export function bodyOf(form: Form, inputs: readonly Given[]): object {
  if (form === 'instances') {
    const [{ shape, axis }] = inputs as [Given];
    const rows = Array.from({ length: shape[axis] as number }, (_, row) =>
      Object.fromEntries(inputs.map((input) => [input.name, sliceAt(nestedOf(input), input.axis, row)])),
    );
    return { instances: rows };
  }
  const described = inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape }));
  if (form === 'raw') {
    const raw = inputs.map(({ data }) => {
      const { buffer, byteOffset, byteLength } = data as Float32Array;
      return Buffer.from(buffer, byteOffset, byteLength).toString('base64');
    });
    return { inputs: described, raw_input_contents: raw };
  }
  const dataOf = (input: Given) => (form === 'flat' ? [...input.data].map(jsonOf) : nestedOf(input));
  return { inputs: described.map((input, index) => ({ ...input, data: dataOf(inputs[index] as Given) })) };
}

function nestedOf({ data, shape }: Tensor): Nested<unknown> {
  return nest([...data].map(jsonOf), shape);
}

function jsonOf(element: number | bigint | string): unknown {
  return typeof element === 'bigint' ? String(element) : element;
}

/** A session that is given tensors as the model has them, with nothing of batchscore around it. */
export async function sessionOf({ directory }: OpenedModels): Promise<Session> {
  const spec = { path: `${directory}/model/1/model.onnx`, providers: ['cpu'], sessionOptions: {} };
  const session = await openSession(spec);
  afterThisTest(() => session.close());
  return session;
}

interface Output {
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

/** What ONNX Runtime itself gives for one request. @param names of outputs. @default all */
export async function runAlone(
  session: Session,
  inputs: readonly Tensor[],
  names?: readonly string[],
): Promise<Output[]> {
  const task = inputs.map(({ name, datatype, shape, data }) => {
    return { name, onnxType: DATATYPES[datatype].onnxType, shape, data: data.slice() };
  });
  const { outputs } = await session.run({ inputs: task, outputs: names });
  return outputs.map(({ shape, data }) => ({ shape, data: [...data].map(jsonOf) }));
}

export interface Answer {
  readonly outputs?: readonly (Output & { readonly name: string; readonly datatype: Datatype })[];
  readonly raw_output_contents?: readonly string[];
  readonly predictions?: readonly unknown[];
  readonly result?: unknown;
  readonly code?: string;
  readonly error?: string;
}

/** The answers to bodies that come together, one per body; and the rows of each run. */
export async function score({ repository }: OpenedModels, bodies: readonly unknown[]) {
  const deps = scoringDependencies({ models: repository });
  await scoreRecords(standardRecords(bodies), deps, enoughTime());
  const answers = bodies.map((_, index) => deps.writer.documentsOf(messageIdOf(index))[0] as Answer);
  return { answers, rowsRun: deps.reports.map(({ rows }) => rows) };
}

/** Refuses an answer that is not what ONNX Runtime gave, up to rounding. */
function expectAnswer(answer: Answer, expected: readonly Output[], axes: readonly number[], names: readonly string[]) {
  if (answer.predictions !== undefined) {
    const rows = expected[0]?.shape[axes[0] as number] ?? 0;
    const wanted = Array.from({ length: rows }, (_, row) => {
      const values = expected.map(({ data, shape }, index) => sliceAt(nest(data, shape), axes[index] as number, row));
      return values.length === 1 ? values[0] : Object.fromEntries(names.map((name, index) => [name, values[index]]));
    });
    expectClose(answer.predictions, wanted);
    return;
  }
  const got = answer.outputs?.map(({ shape, data }, index) => {
    const raw = answer.raw_output_contents?.[index];
    return {
      shape,
      data: raw === undefined ? data : [...new Float32Array(Uint8Array.from(Buffer.from(raw, 'base64')).buffer)],
    };
  });
  expectClose(got, expected);
}

export function expectClose(got: unknown, wanted: unknown): void {
  expect(snapped(got, wanted)).toEqual(wanted);
}

/** `got` with the numbers of `wanted` where they differ by no more than one row and many may be rounded differently. */
function snapped(got: unknown, wanted: unknown): unknown {
  if (typeof got === 'number' && typeof wanted === 'number') return Math.abs(got - wanted) <= 1e-5 ? wanted : got;
  if (typeof got !== 'object' || got === null) return got;
  const at = (wanted ?? {}) as Record<string, unknown>;
  if (Array.isArray(got)) return got.map((part, index) => snapped(part, at[index]));
  return Object.fromEntries(Object.entries(got).map(([key, part]) => [key, snapped(part, at[key])]));
}

/** Where the outputs of a model have their rows. */
export interface RowsOf {
  readonly names: readonly string[];
  /** The batch axis of each. */
  readonly axes: readonly number[];
  /** The inputs that requests do not give. */
  readonly constants?: readonly Tensor[];
}

/** Every request scored with the others, in one message each and packed into one, is answered as it is alone. */
export async function expectAnsweredAsAlone(
  opened: OpenedModels,
  requests: readonly { readonly form: Form; readonly inputs: readonly Given[] }[],
  { axes, names, constants = [] }: RowsOf,
  session: Session,
): Promise<void> {
  const bodies = requests.map(({ form, inputs }) => bodyOf(form, inputs));
  const { answers } = await score(opened, bodies);
  const packed = (await score(opened, [bodies])).answers[0] as unknown as Answer[];
  for (const [index, { inputs }] of requests.entries()) {
    const alone = await runAlone(session, [...inputs, ...constants], names);
    expectAnswer(answers[index] as Answer, alone, axes, names);
    expectAnswer(packed[index] as Answer, alone, axes, names);
  }
}
