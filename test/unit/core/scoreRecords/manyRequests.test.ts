import { describe, expect, it } from '@jest/globals';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import {
  echoModel,
  enoughTime,
  lineRequest,
  messageIdOf,
  repositoryOf,
  scoringDependencies,
  standardRecord,
} from '../../../helpers/scoring.ts';
import { statuses } from './answers.ts';

/** More than a function takes as arguments: one that is given them by `...` throws a RangeError. */
const MANY = 150_000;

/** Some of them are refused. */
const requests = Array.from({ length: MANY }, (_, value) => (value % 100 === 0 ? 0 : lineRequest([value])));
const answers = requests.map((request, value) => (request === 0 ? 'INVALID_REQUEST' : 2 * value + 1));

interface Answer {
  readonly code?: string;
  readonly outputs?: readonly { readonly data: readonly number[] }[];
}

function inShort({ code, outputs }: Answer): string | number | undefined {
  return code ?? outputs?.[0]?.data[0];
}

describe('a call of 150,000 requests', () => {
  it('is answered when one message packs them all', async () => {
    const deps = scoringDependencies({ limits: { maxRequestsPerMessage: MANY, maxAnswerCharacters: 1e8 } });

    const outcomes = await scoreRecords([standardRecord(requests)], deps, enoughTime());

    expect(statuses(outcomes)).toEqual(['answered']);
    const [document] = deps.writer.documentsOf(messageIdOf(0)) as [Answer[]];
    expect(document.findIndex((answer, index) => inShort(answer) !== answers[index])).toBe(-1);
    expect(deps.problems).toEqual([]);
  });
});

describe('a request of 150,000 values', () => {
  it('is answered when they are nested', async () => {
    const deps = scoringDependencies({ models: repositoryOf(echoModel('FP32', [MANY])) });
    const values = Array.from({ length: MANY }, (_, index) => index);

    await scoreRecords([standardRecord({ instances: [values] })], deps, enoughTime());

    const [{ predictions }] = deps.writer.documentsOf(messageIdOf(0)) as [{ predictions: number[][] }];
    expect(predictions[0]?.findIndex((value, index) => value !== index)).toBe(-1);
    expect(predictions[0]).toHaveLength(MANY);
  });
});
