import { describe, expect, it } from '@jest/globals';
import { samplesOf } from '../../../../cli/demo/assess.ts';
import { type DemoReport, drawDigits, fold, renderReport } from '../../../../cli/demo/demoReport.ts';

/** A stroke from the upper left to the lower right, darker and darker. */
const STROKE = Array.from({ length: 64 }, (_, pixel) => (pixel % 9 === 0 ? 2 * (1 + pixel / 9) : 0));
const DIGIT = { pixels: STROKE, label: 7, probability: 0.987 };
const PASS = { missing: 0, duplicates: 0, wrongId: 0 };

const REPORT: DemoReport = {
  batchSize: 8,
  windowSeconds: 1,
  waited: 0,
  isAtARate: false,
  samples: {
    digits: [DIGIT, DIGIT, DIGIT],
    refused: { code: 'INVALID_SHAPE', error: 'inputs[0].shape: expected [rows, 64], got [1, 63]; send that shape' },
    result: `{"message_id":"${'0'.repeat(300)}"}`,
  },
  figures: {
    ...PASS,
    messages: 30,
    answered: 30,
    errors: { INVALID_DATA: 2, INVALID_SHAPE: 1 },
    accuracy: 0.98,
    p50Ms: 100,
    p99Ms: 200,
    microBatches: 4,
    meanRows: 7.5,
    paddingShare: 0,
    closed: { end: 4 },
    stagesMs: { decode: 1, stack: 1, run: 1, encode: 1, write: 1 },
    seconds: 1.5,
    written: { results: 30, messages: 30, calls: 5 },
    invocations: 4,
    dollarsPerMillionRows: 0.5,
    packed: { ...PASS, seconds: 1, written: { results: 30, messages: 4, calls: 4 }, dollarsPerMillionRows: 0.25 },
    oneByOneSeconds: 3,
    oneByOneDollarsPerMillionRows: 1.5,
    speedup: 2,
  },
};

describe('what npm start prints', () => {
  it.each([200, 80, 60, 40, 30])('fits into %i columns', (columns) => {
    const text = renderReport(REPORT, { columns });
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(Math.max(columns, 39));
    expect(text).toContain('…');
    expect(text).toContain('7, 98.7 %');
  });

  it('has the whole result where there is no width', () => {
    expect(renderReport(REPORT, {})).toContain(`  ${REPORT.samples.result}\n`);
  });

  it.each([
    [0, false, undefined],
    [1, false, 'a batch that did not fill waited 1 s for more messages'],
    [2, false, 'with more --messages it counts for less'],
    [2, true, 'a smaller --batch-size fills sooner'],
  ])('says that %i batches waited out the window (at a rate: %s)', (waited, isAtARate, sentence) => {
    const text = renderReport({ ...REPORT, waited, isAtARate }, {}).replaceAll(/\s+/g, ' ');
    expect(text.includes('did not fill')).toBe(sentence !== undefined);
    expect(text).toContain(sentence ?? 'speed-up 2.0×');
  });
});

describe('digits in blocks', () => {
  it('stand side by side above their labels, as wide as there is room', () => {
    const [first, last] = [0, 7].map((row) => drawDigits([DIGIT, DIGIT], 40)[row]);
    expect(first).toBe(`${'░░'.padEnd(20)}░░`);
    expect(last).toBe(`${'██'.padStart(16).padEnd(20)}${'██'.padStart(16)}`);
    expect(drawDigits([DIGIT, DIGIT], 39)[7]).toBe(`${'█'.padStart(8).padEnd(12)}${'█'.padStart(8)}`);
    expect(drawDigits([DIGIT, DIGIT], 40).at(-1)).toBe(`${'7, 98.7 %'.padEnd(20)}7, 98.7 %`);
    expect(drawDigits([DIGIT, DIGIT, DIGIT], 24).at(-1)).toBe('7, 98.7 %   7, 98.7 %');
  });
});

describe('what a person is shown of the results', () => {
  const scored = (id: string, label: number): string => {
    const probabilities = Array.from({ length: 10 }, (_, index) => (index === label ? 0.9 : 0.01));
    const outputs = [
      { name: 'label', data: [label] },
      { name: 'probabilities', data: probabilities },
    ];
    return JSON.stringify({ id, outputs });
  };

  it('are three digits that differ, the first result, and a refusal that names its message', () => {
    const messages = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, body: '', label: 1, pixels: [id.charCodeAt(0)] }));
    const bodies = [
      'no JSON',
      '{"code":"INVALID_JSON","error":"without an id"}',
      scored('a', 1),
      scored('b', 1),
      scored('c', 2),
      '{"id":"x","code":"INVALID_DATA","error":"why"}',
      scored('d', 3),
      scored('e', 4),
    ];
    expect(samplesOf(messages, bodies)).toEqual({
      digits: [
        { pixels: [97], label: 1, probability: 0.9 },
        { pixels: [99], label: 2, probability: 0.9 },
        { pixels: [100], label: 3, probability: 0.9 },
      ],
      result: scored('a', 1),
      refused: { id: 'x', code: 'INVALID_DATA', error: 'why' },
    });
  });
});

describe('folded text', () => {
  it('breaks between words, and gives a longer word a line', () => {
    expect(fold('one two three fourteen', 8)).toEqual(['one two', 'three', 'fourteen']);
    expect(fold('seventeen one', 4)).toEqual(['seventeen', 'one']);
    expect(fold('', 4)).toEqual(['']);
  });
});
