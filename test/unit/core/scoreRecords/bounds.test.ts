import { describe, expect, it } from '@jest/globals';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { closedGate, whatCanHappen } from '../../../helpers/gate.ts';
import { echoModel, lineModel, repositoryOf } from '../../../helpers/models.ts';
import { lineRequest, messageIdOf, standardRecord, standardRecords } from '../../../helpers/records.ts';
import { enoughTime, scoringDependencies } from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';

describe('a packed message', () => {
  it('of more requests than allowed is refused with one error', async () => {
    const deps = scoringDependencies({ limits: { maxRequestsPerMessage: 3 } });
    const records = standardRecords([new Array(4).fill(1), new Array(3).fill(lineRequest([1]))]);
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(['answered', 'answered']);
    expect(deps.writer.documentsOf(messageIdOf(0))).toEqual([
      {
        message_id: messageIdOf(0),
        code: 'TOO_MANY_REQUESTS',
        error: 'body: expected at most 3 requests in a packed message, got 4; send several messages',
      },
    ]);
    expect(answerTo(deps.writer, 1)).toHaveLength(3);
  });

  it('whose answer is larger than allowed is answered with one error, its neighbour with its scores', async () => {
    const deps = scoringDependencies({ limits: { maxAnswerCharacters: 1000 } });
    const packed = Array.from({ length: 20 }, (_, index) => lineRequest([index]));
    const records = standardRecords([packed, lineRequest([5])]);
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(['answered', 'answered']);
    expect(deps.writer.documentsOf(messageIdOf(0))).toMatchObject([{ code: 'RESULT_TOO_LARGE' }]);
    expect(answerTo(deps.writer, 1)).toEqual([11]);
  });

  it('is handed back when too many answers of others are held, and answered when fewer come together', async () => {
    const slow = closedGate();
    const models = repositoryOf(lineModel(), lineModel({ name: 'slow', before: () => slow.opened }));
    const deps = scoringDependencies({ models, limits: { maxAnswerCharacters: 500 } });
    const packed = [lineRequest([1]), { ...lineRequest([2]), model_name: 'slow' }];
    const records = standardRecords(new Array(40).fill(packed));
    const scoring = scoreRecords(records, deps, enoughTime());
    await whatCanHappen();
    slow.open();
    expect(new Set(statuses(await scoring))).toEqual(new Set(['answered', 'OUT_OF_MEMORY']));
    expect(statuses(await scoreRecords([standardRecord(packed)], deps, enoughTime()))).toEqual(['answered']);
    expect(deps.problems).toEqual([]);
  });
});

describe('an answer', () => {
  it('that can only be too large is refused before it is spelled, alone and in parts', async () => {
    const wide = echoModel('FP32', [1000], { maxBatchRows: 4 });
    const deps = scoringDependencies({ models: repositoryOf(wide), limits: { maxAnswerCharacters: 8000 } });
    const rows = (count: number) => ({
      inputs: [{ name: 'in', datatype: 'FP32', shape: [count, 1000], data: new Array(count * 1000).fill(0) }],
    });
    const records = standardRecords([rows(4), rows(9), rows(3)]);
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(['answered', 'answered', 'answered']);
    expect([0, 1].map((index) => answerTo(deps.writer, index))).toEqual(['RESULT_TOO_LARGE', 'RESULT_TOO_LARGE']);
    expect(answerTo(deps.writer, 2)).toHaveLength(3000);
  });
});

describe('the memory of payloads', () => {
  const pointerTo = (key: string) => [
    'software.amazon.payloadoffloading.PayloadS3Pointer',
    { s3BucketName: 'b', s3Key: key },
  ];

  it('is shared out by what is read: the next is read when those before are scored', async () => {
    const held: number[] = [];
    let reading = 0;
    const deps = scoringDependencies({
      payloads: {
        async read(_, { admit }) {
          await admit(10 * 1024 * 1024);
          reading += 1;
          held.push(reading - deps.writer.written.length);
          return JSON.stringify(lineRequest([1]));
        },
      },
    });
    const records = standardRecords(Array.from({ length: 5 }, (_, index) => pointerTo(`${index}`)));
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(new Array(5).fill('answered'));
    expect(Math.max(...held)).toBeLessThanOrEqual(2);
  });
});
