import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { failure } from '../../../../lambda/core/failure.ts';
import { scoreRecords } from '../../../../lambda/core/scoreRecords.ts';
import { closedGate, whatCanHappen } from '../../../helpers/gate.ts';
import { lineRequest, messageIdOf, standardRecord, standardRecords } from '../../../helpers/records.ts';
import { enoughTime, memoryWriter, scoringDependencies } from '../../../helpers/scoring.ts';
import { answerTo, statuses, writtenRecords } from './answers.ts';

const RECORDS = standardRecords([lineRequest([1]), lineRequest([2]), lineRequest([3])]);
const REFUSED = failure('WRITE_FAILED', 'result queue: InternalError');
const TOO_LARGE = failure('RESULT_TOO_LARGE', 'expected at most 10 bytes, got 100; send fewer rows');

describe('a record is acknowledged only when its result is written', () => {
  it('tells no outcome while a write is open', async () => {
    const gate = closedGate();
    let offered = 0;
    const before = (results: readonly unknown[]) => {
      offered += results.length;
      return gate.opened;
    };
    const deps = scoringDependencies({ writer: memoryWriter({ before }) });
    let told = false;
    const scoring = scoreRecords(RECORDS, deps, enoughTime()).finally(() => {
      told = true;
    });

    await whatCanHappen();
    expect([told, offered]).toEqual([false, 3]);
    gate.open();

    expect(statuses(await scoring)).toEqual(['answered', 'answered', 'answered']);
    expect(writtenRecords(deps.writer)).toEqual([0, 1, 2]);
  });

  it('tells no outcome while the write of an error is open', async () => {
    const gate = closedGate();
    const deps = scoringDependencies({ writer: memoryWriter({ before: () => gate.opened }) });
    let told = false;
    const scoring = scoreRecords(standardRecords(['no JSON']), deps, enoughTime()).finally(() => {
      told = true;
    });

    await whatCanHappen();
    expect(told).toBe(false);
    gate.open();
    expect(statuses(await scoring)).toEqual(['answered']);
  });

  it('hands back exactly the records whose results were refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }), async (refusals) => {
        const refuse = ({ messageId }: { messageId: string }) =>
          refusals[Number.parseInt(messageId.slice(-12), 16)] ? REFUSED : undefined;
        const deps = scoringDependencies({ writer: memoryWriter({ refuse }) });
        const outcomes = await scoreRecords(
          standardRecords(refusals.map((_, index) => (index % 3 === 2 ? 'no JSON' : lineRequest([index])))),
          deps,
          enoughTime(),
        );

        expect(statuses(outcomes)).toEqual(refusals.map((refused) => (refused ? 'WRITE_FAILED' : 'answered')));
        const taken = refusals.flatMap((refused, index) => (refused ? [] : [index]));
        expect(writtenRecords(deps.writer).toSorted((a, b) => a - b)).toEqual(taken);
      }),
      { numRuns: 50 },
    );
  });

  it('writes the same result under the same ID again on redelivery, in whatever company', async () => {
    const deps = scoringDependencies();
    await scoreRecords(RECORDS, deps, enoughTime());
    await scoreRecords(RECORDS.slice(1, 2), deps, enoughTime());

    const [first, second] = deps.writer.documentsOf(messageIdOf(1));
    expect(first).toEqual({
      message_id: messageIdOf(1),
      model_name: 'line',
      model_version: '1',
      outputs: [{ name: 'y', datatype: 'FP32', shape: [1, 1], data: [5] }],
    });
    expect(second).toEqual(first);
  });

  it('gives the writer the signal that ends its retries', async () => {
    const given = new Set<AbortSignal>();
    const before = (_: unknown, signal: AbortSignal) => void given.add(signal);
    const time = enoughTime();
    await scoreRecords(RECORDS, scoringDependencies({ writer: memoryWriter({ before }) }), time);
    expect([...given]).toEqual([time.signal]);
  });
});

describe('a writer that breaks its word', () => {
  it('has its records handed back when it throws, and the observer told', async () => {
    const error = new Error('the network is gone');
    const before = () => {
      throw error;
    };
    const deps = scoringDependencies({ writer: memoryWriter({ before }) });

    const outcomes = await scoreRecords(RECORDS, deps, enoughTime());

    expect(statuses(outcomes)).toEqual(['WRITE_FAILED', 'WRITE_FAILED', 'WRITE_FAILED']);
    expect(deps.problems).toEqual([error]);
  });

  it('does no harm to what other writes took', async () => {
    const before = (results: readonly { body: string }[]) => {
      if (results.some(({ body }) => body.includes('outputs'))) throw new Error('scores are refused');
    };
    const deps = scoringDependencies({ writer: memoryWriter({ before }) });
    const outcomes = await scoreRecords(standardRecords(['no JSON', lineRequest([1])]), deps, enoughTime());
    expect(statuses(outcomes)).toEqual(['answered', 'WRITE_FAILED']);
  });

  it.each([0, 2, 4])('has its records handed back when it gives %d verdicts on three results', async (count) => {
    const writer = { write: async () => Array.from({ length: count }, () => ({ written: true }) as const) };
    const deps = scoringDependencies({ writer });

    expect(statuses(await scoreRecords(RECORDS, deps, enoughTime()))).toEqual(new Array(3).fill('WRITE_FAILED'));
    expect(deps.problems).toEqual([new Error(`expected 3 verdicts from the result writer, got ${count}`)]);
  });

  it('has a record handed back for which it leaves a hole among its verdicts', async () => {
    const writer = {
      async write() {
        const verdicts = new Array<{ written: true }>(3);
        verdicts[0] = { written: true };
        verdicts[2] = { written: true };
        return verdicts;
      },
    };
    const outcomes = await scoreRecords(RECORDS, scoringDependencies({ writer }), enoughTime());
    expect(statuses(outcomes)).toEqual(['answered', 'WRITE_FAILED', 'answered']);
  });
});

describe('a result that is too large for its store', () => {
  const refuse = ({ body }: { body: string }) => (body.includes('"outputs"') ? TOO_LARGE : undefined);
  const large = lineRequest([1, 2], { id: 'order-42' });

  it('is answered with an error instead', async () => {
    const deps = scoringDependencies({ writer: memoryWriter({ refuse }) });
    const outcomes = await scoreRecords(standardRecords([large, 'no JSON']), deps, enoughTime());

    expect(outcomes[0]).toEqual({ status: 'answered', failures: [TOO_LARGE], requests: 1 });
    expect([answerTo(deps.writer, 0), answerTo(deps.writer, 1)]).toEqual(['RESULT_TOO_LARGE', 'INVALID_JSON']);
  });

  it('is answered under the id of its request', async () => {
    const deps = scoringDependencies({ writer: memoryWriter({ refuse }) });
    await scoreRecords(standardRecords([large]), deps, enoughTime());
    expect(deps.writer.documentsOf(messageIdOf(0))).toEqual([
      { message_id: messageIdOf(0), id: 'order-42', code: 'RESULT_TOO_LARGE', error: TOO_LARGE.message },
    ]);
  });

  it('hands its record back when the error is not taken either', async () => {
    for (const refusal of [TOO_LARGE, REFUSED]) {
      const refuseAll = ({ body }: { body: string }) => (body.includes('"outputs"') ? TOO_LARGE : refusal);
      const deps = scoringDependencies({ writer: memoryWriter({ refuse: refuseAll }) });
      expect(await scoreRecords(standardRecords([large]), deps, enoughTime())).toEqual([
        { status: 'retry', failure: failure('WRITE_FAILED', refusal.message) },
      ]);
    }
  });

  it('does no harm to the others of its write', async () => {
    const refuseLong = ({ body }: { body: string }) => (body.includes('[2,1]') ? TOO_LARGE : undefined);
    const deps = scoringDependencies({ writer: memoryWriter({ refuse: refuseLong }) });
    await scoreRecords(standardRecords([lineRequest([1]), large, lineRequest([2])]), deps, enoughTime());
    expect([0, 1, 2].map((record) => answerTo(deps.writer, record))).toEqual([[3], 'RESULT_TOO_LARGE', [5]]);
  });
});

describe('the event', () => {
  it('may be empty', async () => {
    const deps = scoringDependencies();
    expect(await scoreRecords([], deps, enoughTime())).toEqual([]);
    expect([deps.writer.written, deps.problems]).toEqual([[], []]);
  });

  it('may hold a message twice: each record gets its outcome and its result', async () => {
    const twice = [standardRecord(lineRequest([4])), standardRecord(lineRequest([4]))];
    const deps = scoringDependencies();

    expect(statuses(await scoreRecords(twice, deps, enoughTime()))).toEqual(['answered', 'answered']);
    const [first, second] = deps.writer.documentsOf(messageIdOf(0));
    expect(first).toMatchObject({ outputs: [{ data: [9] }] });
    expect(second).toEqual(first);
  });
});
