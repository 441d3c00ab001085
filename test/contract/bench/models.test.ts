import { createHash } from 'node:crypto';
import { afterAll, describe, expect, it } from '@jest/globals';
import { drawMessages, type Message } from '../../../bench/workload/messages.ts';
import { createRepository } from '../../../bench/workload/modelRepository.ts';
import { type RowData, SCENARIOS, type Scenario, scenarioNamed } from '../../../bench/workload/scenarios.ts';
import type { Model } from '../../../lambda/core/model.ts';
import type { Tensor } from '../../../lambda/core/tensor.ts';

import { openRepository } from '../../../lambda/onnx/repository.ts';
import { found, tensor } from '../../helpers/openModels.ts';

const ROWS = 5;
const NAMES = SCENARIOS.map(({ name }) => name);

const opened = new Map<Scenario, Promise<Model>>();
const closers: (() => Promise<void>)[] = [];

afterAll(async () => {
  for (const close of closers.toReversed()) await close();
});

/** The scenario's model, loaded as a deployment loads it; once, as the models are large. */
function modelOf(scenario: Scenario): Promise<Model> {
  const opening = opened.get(scenario) ?? loadModel(scenario);
  opened.set(scenario, opening);
  return opening;
}

async function loadModel(scenario: Scenario): Promise<Model> {
  const temporary = await createRepository();
  closers.push(temporary.remove);
  await temporary.addModel(scenario);
  await temporary.configure(scenario, 64);
  const warnings: string[] = [];
  const repository = await openRepository({
    directory: temporary.directory,
    maxBatchRows: 512,
    maxBatchElements: 4_194_304,
    providers: ['cpu'],
    allowProviderFallback: false,
    // A clock that stands still: no check is cut short, however busy the machine.
    now: () => 0,
    warn: (message) => void warnings.push(message),
  });
  closers.push(repository.close);
  expect(warnings).toEqual([]);
  return found(repository.find(scenario.name, undefined));
}

/** Messages of one length, whatever the scenario draws. */
function drawEqualMessages(scenario: Scenario, count: number): Message[] {
  const { lengths } = scenario;
  const fixed =
    lengths === undefined ? scenario : { ...scenario, lengths: { ...lengths, draw: () => lengths.typical } };
  return [...drawMessages(fixed, count)];
}

function stacked(messages: readonly Message[]): Tensor[] {
  return (messages[0] as Message).inputs.map(({ name, datatype, shape }, index) => {
    const rows = messages.map(({ inputs }) => inputs[index]?.data as RowData);
    const data = joined(rows);
    return tensor(name, datatype, [messages.length, ...shape.slice(1)], data);
  });
}

function joined(rows: readonly RowData[]): RowData {
  const [first] = rows;
  const Data = first?.constructor as Float32ArrayConstructor;
  const all = new Data(rows.reduce((sum, { length }) => sum + length, 0));
  for (const [index, row] of rows.entries()) all.set(row as Float32Array, index * row.length);
  return all;
}

async function runOn(model: Model, inputs: readonly Tensor[]): Promise<Float32Array[]> {
  const { outputs } = await model.run(inputs);
  const { shape, data } = outputs[0] as Tensor;
  const rows = shape[0] as number;
  const width = data.length / rows;
  return Array.from({ length: rows }, (_, row) => (data as Float32Array).slice(row * width, (row + 1) * width));
}

/** The largest difference, relative to the largest value. */
function difference(actual: Float32Array, expected: Float32Array): number {
  expect(actual).toHaveLength(expected.length);
  const largest = expected.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  return (
    expected.reduce((max, value, index) => Math.max(max, Math.abs(value - (actual[index] as number))), 0) / largest
  );
}

describe.each(NAMES)('the model of %s', (name) => {
  const scenario = scenarioNamed(name);

  it('is the same, byte for byte, every time', () => {
    const digest = () => createHash('sha256').update(scenario.encodeModel()).digest('hex');
    expect(digest()).toBe(digest());
  });

  it('answers a batch as it answers each row alone, to 1e-5 relative', async () => {
    const model = await modelOf(scenario);
    const messages = drawEqualMessages(scenario, ROWS);
    const batched = await runOn(model, stacked(messages));
    expect(batched).toHaveLength(ROWS);
    for (const [row, message] of messages.entries()) {
      const [alone] = await runOn(model, stacked([message]));
      expect(difference(batched[row] as Float32Array, alone as Float32Array)).toBeLessThanOrEqual(1e-5);
    }
  });

  it('answers with finite values that depend on what it is given', async () => {
    const model = await modelOf(scenario);
    const [first, second] = await runOn(model, stacked(drawEqualMessages(scenario, 2)));
    expect([...(first as Float32Array)].every(Number.isFinite)).toBe(true);
    expect(difference(first as Float32Array, second as Float32Array)).toBeGreaterThan(0.01);
  });
});

describe('the model of transformer', () => {
  it.each([1, 7, 200])('answers a row of %i tokens as it is when padded to 256, to 1e-5 relative', async (length) => {
    const scenario = scenarioNamed('transformer');
    const model = await modelOf(scenario);
    const lengths = { typical: length, draw: () => length };
    const [message] = drawMessages({ ...scenario, lengths }, 1) as Iterable<Message> as [Message];
    const [alone] = await runOn(model, stacked([message]));
    const padded = stacked([message]).map(({ name, datatype, data }) => {
      const longer = new BigInt64Array(256);
      longer.set(data as BigInt64Array);
      return tensor(name, datatype, [1, 256], longer);
    });
    const [answer] = await runOn(model, padded);
    expect(difference(answer as Float32Array, alone as Float32Array)).toBeLessThanOrEqual(1e-5);
  });
});
