import { describe, expect, it } from '@jest/globals';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import {
  echoModel,
  enoughTime,
  lineRequest,
  repositoryOf,
  scoringDependencies,
  standardRecords,
} from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';

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
