import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Model, OutOfMemoryError } from '../../../lambda/core/contract/model.ts';
import { scoreRecords } from '../../../lambda/core/scoreRecords.ts';
import type { Tensor } from '../../../lambda/core/tensor/tensor.ts';
import {
  echoModel,
  enoughTime,
  failsOn,
  type InMemoryModelOptions,
  lineModel,
  repositoryOf,
  scoringDependencies,
  sumModel,
} from '../../helpers/models.ts';
import { fifoRecords, lineRequest, messageIdOf, standardRecords, sumRequest } from '../../helpers/records.ts';
import { closedGate, whatCanHappen } from '../gate.ts';
import { answerTo, statuses } from './answers.ts';

async function score(bodies: readonly unknown[], models: readonly Model[], collapseEqualRequests = true) {
  const deps = scoringDependencies({ models: repositoryOf(...models), limits: { collapseEqualRequests } });
  const outcomes = await scoreRecords(standardRecords(bodies), deps, enoughTime());
  return {
    deps,
    statuses: statuses(outcomes),
    answers: bodies.map((_, record) => deps.writer.documentsOf(messageIdOf(record))),
  };
}

/** The rows of every run of a model. */
function watched() {
  const rows: number[] = [];
  const before = ([first]: readonly Tensor[]): void => void rows.push(first?.shape[0] ?? 0);
  return { rows, before };
}

async function rowsRun(bodies: readonly unknown[], modelOf: (options: InMemoryModelOptions) => Model): Promise<number> {
  const { rows, before } = watched();
  await score(bodies, [modelOf({ before })]);
  return rows.reduce((sum, count) => sum + count, 0);
}

const echo = (datatype: 'FP32' | 'FP64' | 'INT64' | 'BYTES', ...data: readonly unknown[]) => ({
  inputs: [{ name: 'in', datatype, shape: [data.length], data }],
});

describe('equal requests', () => {
  it('are run each for itself when nobody asked for less', async () => {
    const { rows, before } = watched();
    await score([lineRequest([1]), lineRequest([1])], [lineModel({ before })], false);
    expect(rows).toEqual([2]);
  });

  it('are run once, and answered each under its own message ID, with its own id, outputs and form', async () => {
    const { rows, before } = watched();
    const row = [{ left: [1], right: [2], bias: 3 }];
    const bodies = [
      sumRequest(row, { id: 'a' }),
      sumRequest(row, { id: 'b', outputs: [{ name: 'label' }] }),
      sumRequest(row, { parameters: { binary_data_output: true }, outputs: [{ name: 'total' }] }),
      { instances: [{ left: [1], right: [2], bias: 3 }] },
    ];
    const { answers } = await score(bodies, [sumModel({ before })]);
    expect(rows).toEqual([1]);
    const head = (record: number) => ({ message_id: messageIdOf(record), model_name: 'sum', model_version: '1' });
    const label = { name: 'label', datatype: 'BYTES', shape: [1], data: ['total 6'] };
    expect(answers).toEqual([
      [
        {
          ...head(0),
          id: 'a',
          outputs: [
            { name: 'sums', datatype: 'FP32', shape: [1, 1], data: [3] },
            { name: 'total', datatype: 'FP64', shape: [1], data: [6] },
            label,
          ],
        },
      ],
      [{ ...head(1), id: 'b', outputs: [label] }],
      [
        {
          ...head(2),
          outputs: [{ name: 'total', datatype: 'FP64', shape: [1] }],
          raw_output_contents: [Buffer.from(Float64Array.of(6).buffer).toString('base64')],
        },
      ],
      [{ ...head(3), predictions: [{ sums: [3], total: 6, label: 'total 6' }] }],
    ]);
  });

  it('are told by their bits, in JSON as in binary', async () => {
    const binary = {
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1] }],
      raw_input_contents: [Buffer.from(Float32Array.of(7).buffer).toString('base64')],
    };
    expect(await rowsRun([lineRequest([7]), binary, lineRequest([7])], lineModel)).toBe(1);
  });

  it('are told by all of their rows, also inside packed messages', async () => {
    const { rows, before } = watched();
    const { answers } = await score(
      [[lineRequest([1, 2]), lineRequest([1])], lineRequest([1, 2])],
      [lineModel({ before })],
    );
    expect(rows).toEqual([3]);
    expect(answers).toMatchObject([
      [[{ outputs: [{ data: [3, 5] }] }, { outputs: [{ data: [3] }] }]],
      [{ outputs: [{ data: [3, 5] }] }],
    ]);
  });

  it.each<[string, unknown, unknown, (options: InMemoryModelOptions) => Model]>([
    ['0 and -0', '{"instances":[0]}', '{"instances":[-0]}', (options) => echoModel('FP32', [], options)],
    [
      'neighbours',
      echo('FP64', 0.1),
      echo('FP64', 0.100_000_000_000_000_02),
      (options) => echoModel('FP64', [], options),
    ],
    [
      'large integers',
      echo('INT64', '9007199254740993'),
      echo('INT64', '9007199254740992'),
      (options) => echoModel('INT64', [], options),
    ],
    [
      'texts that read alike',
      echo('BYTES', 'a,b'),
      echo('BYTES', 'a', 'b'),
      (options) => echoModel('BYTES', [], options),
    ],
    [
      'texts with quotes',
      echo('BYTES', '","', ''),
      echo('BYTES', '', '","'),
      (options) => echoModel('BYTES', [], options),
    ],
    [
      'a text that spells two',
      echo('BYTES', 'a","b', 'c'),
      echo('BYTES', 'a', 'b","c'),
      (options) => echoModel('BYTES', [], options),
    ],
  ])('are none that differ: %s', async (_, one, other, modelOf) => {
    const alone = (await rowsRun([one], modelOf)) + (await rowsRun([other], modelOf));
    expect(await rowsRun([one, other], modelOf)).toBe(alone);
  });

  it('are told by their base64 where it is too large to be decoded first', async () => {
    const large = (last: number) => ({
      inputs: [{ name: 'in', datatype: 'FP32', shape: [1, 3000] }],
      raw_input_contents: [Buffer.from(new Float32Array(3000).fill(last, 2999).buffer).toString('base64')],
    });
    const modelOf = (options: InMemoryModelOptions) => echoModel('FP32', ['width'], options);
    expect(await rowsRun([large(1), large(2), large(1)], modelOf)).toBe(2);
  });

  it('are none of other shapes with the same elements', async () => {
    const shaped = (...shape: readonly number[]) => ({
      inputs: [{ name: 'in', datatype: 'FP32', shape, data: [1, 2, 3, 4] }],
    });
    const { answers } = await score([shaped(1, 4), shaped(2, 2), shaped(4, 1)], [echoModel('FP32', ['width'])]);
    expect(answers.map(([one]) => (one as { outputs: [{ shape: number[] }] }).outputs[0].shape)).toEqual([
      [1, 4],
      [2, 2],
      [4, 1],
    ]);
  });

  it('are none of other models', async () => {
    const { rows, before } = watched();
    const models = ['a', 'b'].map((name) => lineModel({ name, before }));
    await score([lineRequest([1], { model_name: 'a' }), lineRequest([1], { model_name: 'b' })], models);
    expect(rows).toEqual([1, 1]);
  });

  it('are split and joined once where they have too many rows for one run', async () => {
    const { rows, before } = watched();
    const { answers } = await score(
      [lineRequest([1, 2, 3, 4, 5]), lineRequest([1, 2, 3, 4, 5])],
      [lineModel({ maxBatchRows: 2, before })],
    );
    expect(rows).toEqual([2, 2, 1]);
    expect(answers).toMatchObject([
      [{ outputs: [{ data: [3, 5, 7, 9, 11] }] }],
      [{ outputs: [{ data: [3, 5, 7, 9, 11] }] }],
    ]);
  });

  it('fail together, and nobody else with them', async () => {
    const model = lineModel({ before: failsOn(666) });
    const bodies = [lineRequest([666]), lineRequest([1]), lineRequest([666], { id: 'b' })];
    const { answers, statuses } = await score(bodies, [model]);
    expect(statuses).toEqual(['answered', 'answered', 'answered']);
    expect(answers).toMatchObject([
      [{ code: 'RUN_FAILED' }],
      [{ outputs: [{ data: [3] }] }],
      [{ id: 'b', code: 'RUN_FAILED' }],
    ]);
  });

  it('fail together where a part of them fails, however many parts do', async () => {
    const model = lineModel({ maxBatchRows: 1, before: failsOn(666) });
    const { answers } = await score([lineRequest([1, 666, 666]), lineRequest([1, 666, 666])], [model]);
    expect(answers).toMatchObject([[{ code: 'RUN_FAILED' }], [{ code: 'RUN_FAILED' }]]);
  });

  it('are handed back together', async () => {
    const before = (): void => {
      throw new OutOfMemoryError('none left');
    };
    const { answers, statuses } = await score([lineRequest([1]), lineRequest([1])], [lineModel({ before })]);
    expect([statuses, answers]).toEqual([
      ['OUT_OF_MEMORY', 'OUT_OF_MEMORY'],
      [[], []],
    ]);
  });

  it('are answered in the order of their message groups', async () => {
    const deps = scoringDependencies({ limits: { collapseEqualRequests: true } });
    const records = fifoRecords([
      ['a', lineRequest([1])],
      ['b', lineRequest([1])],
      ['a', lineRequest([1])],
    ]);
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(['answered', 'answered', 'answered']);
    expect(records.map((_, record) => answerTo(deps.writer, record))).toEqual([[3], [3], [3]]);
  });

  it('are run again for one that is decoded when they were answered', async () => {
    const { rows, before } = watched();
    const payload = closedGate();
    const pointer = ['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName: 'b', s3Key: 'k' }];
    const body = JSON.stringify(lineRequest([0]));
    const deps = scoringDependencies({
      models: repositoryOf(lineModel({ maxBatchRows: 256, before })),
      payloads: { read: () => payload.opened.then(() => body) },
      limits: { collapseEqualRequests: true },
    });
    const first = Array.from({ length: 256 }, (_, index) => lineRequest([index]));
    const scoring = scoreRecords(standardRecords([...first, pointer, lineRequest([0])]), deps, enoughTime());
    await whatCanHappen();
    await whatCanHappen();
    expect(answerTo(deps.writer, 0)).toEqual([1]);
    payload.open();
    expect(statuses(await scoring)).toEqual(new Array(258).fill('answered'));
    expect([answerTo(deps.writer, 256), answerTo(deps.writer, 257)]).toEqual([[1], [1]]);
    expect(rows).toEqual([256, 1]);
  });

  it('change no answer, whatever is equal, packed, cut or failing', async () => {
    const anyLine = fc
      .array(fc.constantFrom(0, 1, 666), { minLength: 1, maxLength: 4 })
      .map((values) => lineRequest(values));
    const anyBodies = fc.array(fc.oneof(anyLine, fc.array(anyLine, { minLength: 1, maxLength: 3 })), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(anyBodies, fc.integer({ min: 1, max: 5 }), async (bodies, maxBatchRows) => {
        const model = lineModel({ maxBatchRows, before: failsOn(666) });
        const [once, each] = [await score(bodies, [model]), await score(bodies, [model], false)];
        expect([once.answers, once.statuses]).toEqual([each.answers, each.statuses]);
      }),
      { numRuns: 100 },
    );
  });
});
