import { describe, expect, it } from '@jest/globals';
import { retryReasons } from '../../../../lambda/aws/telemetry.ts';
import { failure, preview, type TransientCode } from '../../../../lambda/core/failure.ts';
import type { Outcome } from '../../../../lambda/core/record.ts';
import { standardRecords } from '../../../helpers/scoring.ts';

function retry(message: string, code: TransientCode = 'WRITE_FAILED'): Outcome {
  return { status: 'retry', failure: failure(code, message) };
}

const ANSWERED: Outcome = { status: 'answered', failures: [failure('INVALID_JSON', 'no JSON')], requests: 1 };

function reasonsOf(...outcomes: readonly Outcome[]) {
  const records = standardRecords(outcomes.map(() => '{}'));
  return { records, reasons: retryReasons(outcomes, records) };
}

describe('the reasons of retries', () => {
  it('are counted apart by message and by code, those of most records first', () => {
    const { records, reasons } = reasonsOf(
      ANSWERED,
      retry('the store is down'),
      retry('no time', 'DEADLINE'),
      retry('no time'),
      retry('no time', 'DEADLINE'),
    );

    expect(reasons).toEqual([
      { code: 'DEADLINE', reason: 'no time', records: 2, messageId: records[2]?.messageId },
      { code: 'WRITE_FAILED', reason: 'the store is down', records: 1, messageId: records[1]?.messageId },
      { code: 'WRITE_FAILED', reason: 'no time', records: 1, messageId: records[3]?.messageId },
    ]);
  });

  it('are ten at most, those that met most records', () => {
    const outcomes = Array.from({ length: 12 }, (_, kind) => Array<Outcome>(kind + 1).fill(retry(`reason ${kind}`)));

    const { reasons } = reasonsOf(...outcomes.flat());

    expect(reasons.map(({ records }) => records)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
  });

  it.each([
    ['a short one', 'SECRET'],
    ['one that was cut short', `SECRET${'x'.repeat(100)}`],
    ['one that was cut short in an escape', `SECRET${'x'.repeat(52)}"`.repeat(2)],
    ['one with quotes', '"SECRET" and "SECRET"'],
    ['one with a backslash at its end', 'SECRET\\'],
    ['one with an ellipsis', 'a…SECRET'],
    ['one with line breaks', 'a\nSECRET\u2028SECRET'],
    ['one with a quote and an ellipsis, cut short', `"…"SECRET${'…"SECRET'.repeat(20)}`],
  ])('never hold what a message quotes: %s', (_, value) => {
    for (const follows of ['', '; do that', ` and ${preview('SECRET')}; do that`, ` and ${preview(value)}…`]) {
      const { reasons } = reasonsOf(retry(`s3 object ${preview(value)}: expected another${follows}`));
      expect(reasons[0]?.reason).toMatch(/^s3 object "…"/);
      expect(reasons[0]?.reason).not.toContain('SECRET');
    }
  });
});
