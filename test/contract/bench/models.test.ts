import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { drawMessages, type Message, toBase64 } from '../../../bench/workload/messages.ts';
import { createRepository } from '../../../bench/workload/modelRepository.ts';
import { type InputTensor, SCENARIOS } from '../../../bench/workload/scenarios.ts';
import { openRepository } from '../../../lambda/onnx/repository.ts';
import { afterThisTest, found } from '../../helpers/openModels.ts';

describe.each(SCENARIOS)('the model of $name', (scenario) => {
  const model = scenario.encodeModel();

  it('is the same, byte for byte, every time', () => {
    const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
    expect(digest(scenario.encodeModel())).toBe(digest(model));
  });

  it('opens as in a deployment, without a warning', async () => {
    const temporary = await createRepository();
    afterThisTest(temporary.remove);
    await temporary.addModel(scenario, 64);
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
    afterThisTest(repository.close);
    expect(warnings).toEqual([]);
    expect(await found(repository.find(scenario.name, undefined))).toMatchObject({ independence: 'independent' });
  });

  it('answers rows of a batch, padded, as it answers each alone, and each differently', async () => {
    const session = await InferenceSession.create(model, { logSeverityLevel: 4 });
    const answerTo = async (messages: readonly Message[]): Promise<number[]> => {
      const [output] = Object.values(await session.run(stackMessages(messages)));
      return [...((output as Tensor).data as Float32Array)];
    };
    const messages = [...drawMessages(scenario, 5)];
    const alone = await Promise.all(messages.map((message) => answerTo([message])));
    const batched = await answerTo(messages);
    await session.release();

    const largest = Math.max(...batched.map(Math.abs));
    expect(difference(batched, alone.flat())).toBeLessThan(1e-5 * largest);
    for (const other of alone.slice(1)) expect(difference(other, alone[0] as number[])).toBeGreaterThan(0.01 * largest);
  });
});

/** The largest difference between two elements at the same place; NaN where one is none. */
function difference(actual: readonly number[], expected: readonly number[]): number {
  expect(actual).toHaveLength(expected.length);
  return Math.max(...actual.map((value, index) => Math.abs(value - (expected[index] as number))));
}

/** The tensors of one run over the messages, each padded with zeros to the longest. */
function stackMessages(messages: readonly Message[]): Record<string, Tensor> {
  const [first] = messages as [Message];
  const feeds = first.inputs.map(({ name }, index) => {
    const rows = messages.map(({ inputs }) => inputs[index] as Message['inputs'][number]);
    const longest = rows.reduce((max, row) => (row.data.length > max.data.length ? row : max));
    const each = bytesOf(longest).length;
    const bytes = new Uint8Array(rows.length * each);
    for (const [row, input] of rows.entries()) bytes.set(bytesOf(input), row * each);
    const shape = [rows.length, ...longest.shape.slice(1)];
    const tensor =
      longest.datatype === 'INT64'
        ? new Tensor('int64', new BigInt64Array(bytes.buffer), shape)
        : new Tensor('float32', new Float32Array(bytes.buffer), shape);
    return [name, tensor];
  });
  return Object.fromEntries(feeds);
}

function bytesOf({ data }: InputTensor): Buffer {
  return Buffer.from(toBase64(data), 'base64');
}
