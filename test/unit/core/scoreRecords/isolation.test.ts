import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { failure } from '../../../../lambda/core/failure.ts';
import { type Model, type ModelRepository, ModelUnavailableError } from '../../../../lambda/core/model.ts';
import { type Planner, plan } from '../../../../lambda/core/plan.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import {
  enoughTime,
  failsOn,
  lineModel,
  lineRequest,
  messageIdOf,
  repositoryOf,
  scoringDependencies,
  standardRecords,
} from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';

const POISON = 666;

async function score(bodies: readonly unknown[], ...models: readonly Model[]) {
  const deps = scoringDependencies({ models: repositoryOf(...models) });
  const outcomes = await scoreRecords(standardRecords(bodies), deps, enoughTime());
  return { deps, outcomes, answers: () => bodies.map((_, record) => answerTo(deps.writer, record)) };
}

describe('a bad record', () => {
  it('is answered with its error, and every other one with its score', async () => {
    const bad = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }], id: 'order-42' };
    const { answers, deps, outcomes } = await score([lineRequest([1]), bad, 'no JSON', lineRequest([2])], lineModel());

    expect(answers()).toEqual([[3], 'INVALID_SHAPE', 'INVALID_JSON', [5]]);
    expect(deps.writer.documentsOf(messageIdOf(1))).toEqual([
      {
        message_id: messageIdOf(1),
        id: 'order-42',
        code: 'INVALID_SHAPE',
        error: "inputs[0].shape ('x'): expected [rows, 1], got [1, 2]; send that shape",
      },
    ]);
    expect(outcomes.map((one) => one.status === 'answered' && [one.requests, one.failures.map((f) => f.code)])).toEqual(
      [
        [1, []],
        [1, ['INVALID_SHAPE']],
        [1, ['INVALID_JSON']],
        [1, []],
      ],
    );
  });

  it('is retried, and nobody else, when looking its model up throws; the observer is told', async () => {
    const error = new Error('the disk is gone');
    const known = repositoryOf(lineModel());
    const find = async (name: string | undefined, version: string | undefined) => {
      if (name === 'gone') throw error;
      return known.find(name, version);
    };
    const deps = scoringDependencies({ models: { find } });
    const records = standardRecords([lineRequest([1]), lineRequest([1], { model_name: 'gone' }), lineRequest([2])]);

    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(['answered', 'INTERNAL', 'answered']);
    expect(deps.problems).toEqual([error]);
    expect(deps.writer.documentsOf(messageIdOf(1))).toEqual([]);
  });
});

describe('a request that makes a run fail', () => {
  it('is found, and answers every other record', async () => {
    const bodies = Array.from({ length: 9 }, (_, i) => lineRequest([i === 5 ? POISON : i], { id: `order-${i}` }));
    const { answers, deps, outcomes } = await score(bodies, lineModel({ before: failsOn(POISON) }));

    expect(answers()).toEqual([[1], [3], [5], [7], [9], 'RUN_FAILED', [13], [15], [17]]);
    expect(statuses(outcomes)).toEqual(new Array(9).fill('answered'));
    expect(deps.writer.documentsOf(messageIdOf(5))).toEqual([
      {
        message_id: messageIdOf(5),
        id: 'order-5',
        code: 'RUN_FAILED',
        error: "model 'line' failed on this request alone: cannot score 666",
      },
    ]);
  });

  it('is told from all others, however many there are and wherever they stand', async () => {
    const choices = fc.constantFrom<number[]>([], [1, 4, 16], [8], [2, 32]);
    const requests = fc.array(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.boolean()), { minLength: 1, maxLength: 24 });
    await fc.assert(
      fc.asyncProperty(
        requests,
        choices,
        fc.integer({ min: 1, max: 16 }),
        async (specs, allowedSizes, maxBatchRows) => {
          const rows = specs.map(([count, poisoned], index) =>
            Array.from({ length: count }, (_, row) => (poisoned && row === count - 1 ? POISON : index)),
          );
          const model = lineModel({ before: failsOn(POISON), allowedSizes, maxBatchRows });
          const { answers } = await score(
            rows.map((values) => lineRequest(values)),
            model,
          );
          expect(answers()).toEqual(
            rows.map((values) => (values.includes(POISON) ? 'RUN_FAILED' : values.map((value) => 2 * value + 1))),
          );
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('a model that cannot be run now', () => {
  const unavailable = () => {
    throw new ModelUnavailableError('its thread died');
  };

  it('has its records handed back, and no others; the observer is told', async () => {
    const gone = lineModel({ name: 'gone', before: unavailable });
    const bodies = ['line', 'gone', 'gone', 'line'].map((model_name) => lineRequest([1], { model_name }));
    const { deps, outcomes } = await score(bodies, lineModel(), gone);

    expect(statuses(outcomes)).toEqual(['answered', 'MODEL_UNAVAILABLE', 'MODEL_UNAVAILABLE', 'answered']);
    expect(deps.writer.written.map(({ messageId }) => messageId)).toEqual([messageIdOf(0), messageIdOf(3)]);
    // Once: a run is not halved for it.
    expect(deps.problems).toEqual([new ModelUnavailableError('its thread died')]);
  });

  it('has a packed message handed back before another request of it is run', async () => {
    const models: ModelRepository = {
      find: (name) => (name === 'gone' ? failure('MODEL_UNAVAILABLE', 'it cannot be opened') : lineModel()),
    };
    const deps = scoringDependencies({ models });
    const packed = [lineRequest([1], { model_name: 'gone' }), lineRequest([2])];

    expect(statuses(await scoreRecords(standardRecords([packed]), deps, enoughTime()))).toEqual(['MODEL_UNAVAILABLE']);
    expect(deps.reports).toEqual([]);
  });

  const failsOrIsGone = ([x]: readonly { data: ArrayLike<unknown> }[]) => {
    if (x?.data[0] === POISON) throw new Error('cannot score');
    unavailable();
  };

  it('has a split request handed back, and nothing written for it though a later run of it fails', async () => {
    const model = lineModel({ before: failsOrIsGone, maxBatchRows: 1 });
    const { deps, outcomes } = await score([lineRequest([1, POISON])], model);
    expect(statuses(outcomes)).toEqual(['MODEL_UNAVAILABLE']);
    expect(deps.writer.written).toEqual([]);
  });
});

describe('what is no fault of a record', () => {
  it('hands records back when they cannot be stacked, and tells the observer', async () => {
    const noRoom: Planner = (maxElementsOf) => {
      const planned = plan(maxElementsOf);
      return { ...planned, finish: () => planned.finish().map((one) => ({ ...one, paddedRows: 0 })) };
    };
    const deps = scoringDependencies({ plan: noRoom });
    const outcomes = await scoreRecords(standardRecords([lineRequest([1]), 'no JSON']), deps, enoughTime());

    expect(statuses(outcomes)).toEqual(['INTERNAL', 'answered']);
    expect(deps.problems).toHaveLength(1);
  });

  it('hands back a record that the planner forgot', async () => {
    const forgetful: Planner = (maxElementsOf) => {
      const planned = plan(maxElementsOf);
      return { ...planned, add: (request) => (request.bodyIndex === 0 ? [] : planned.add(request)) };
    };
    const deps = scoringDependencies({ plan: forgetful });
    const outcomes = await scoreRecords(standardRecords([lineRequest([1]), lineRequest([2])]), deps, enoughTime());
    expect(statuses(outcomes)).toEqual(['INTERNAL', 'answered']);
  });
});
