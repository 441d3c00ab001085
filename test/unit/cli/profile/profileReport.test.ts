import { describe, expect, it } from '@jest/globals';
import { reportPage } from '../../../../cli/page/pageFiles.ts';
import { type ProfileReport, pageOf, renderProfile } from '../../../../cli/profile/profileReport.ts';
import { type Given, reportOf } from './reports.ts';

const RAGGED: Given = { lengths: [32, 64, 128], messagesPerSecond: 5 };

describe.each([
  ['rows of one length', {}],
  ['rows of several lengths', RAGGED],
  ['one size alone, on one thread', { maxRows: 1, threads: [1], msOf: () => 40 }],
  ['a rate and a budget beyond all charts', { messagesPerSecond: 20_000, budgetMs: 3_600_000 }],
] as const)('the report of %s', (_, given: Given) => {
  const report = reportOf(given);
  const shown = pageOf(report);

  it('has a chart whose lines have a value or a gap for each x, with its essence in words', () => {
    const { x, lines, words } = shown.chart;
    expect(words).toMatch(/\d/);
    expect(x.values.toSorted((a, b) => a - b)).toEqual(x.values);
    for (const { values } of lines) expect(values).toHaveLength(x.values.length);
  });

  it('prints the table that its page shows, and marks the settings that were chosen', () => {
    const text = renderProfile(report);
    for (const cells of shown.settings.rows) {
      expect(text).toMatch(
        new RegExp(
          `^>? *${cells
            .filter((cell) => cell !== '')
            .map(escaped)
            .join(' +')}$`,
          'm',
        ),
      );
    }
    const { batchSize, windowSeconds } = report.answer.chosen;
    const chosen = shown.settings.rows[shown.settings.chosen ?? -1];
    expect(chosen?.slice(0, 2)).toEqual([batchSize.toLocaleString('en-US'), String(windowSeconds)]);
  });
});

const REPORT = reportOf();
const escaped = (text: string): string => text.replaceAll(/[$().*+]/g, '\\$&');

describe('what the report says', () => {
  it('recommends in words and as props that can be copied', () => {
    const { lead, reasons, props } = pageOf(REPORT);
    const { batchSize, windowSeconds } = REPORT.recommendation;
    expect(lead).toBe(`Hand over up to ${batchSize} messages at a time; wait ${windowSeconds} s for them at most.`);
    expect(reasons[0]).toBe(REPORT.recommendation.reason);
    expect(props).toBe(REPORT.recommendation.props.join('\n'));
  });

  it('marks each row over the budget, and none within it', () => {
    const report = reportOf({ messagesPerSecond: 50, budgetMs: 1_005 });
    const { settings } = pageOf(report);
    const ageAt = settings.heads.indexOf('p99 age');
    const ages = settings.rows.map((row) => row[ageAt] ?? '');
    const late = report.answer.candidates.slice(0, ages.length).map(({ p99AgeMs }) => p99AgeMs > 1_005);
    expect(new Set(late)).toEqual(new Set([true, false]));
    expect(ages.map((age) => age.endsWith(', over the budget')).slice(0, late.length)).toEqual(late);
    expect(ages[settings.chosen ?? -1]).not.toContain('over');
  });

  it('says how long packed messages are gathered, and counts it', () => {
    const packed = reportOf({ messagesPerSecond: 0.5, budgetMs: 5_000, requestsPerMessage: 100 });
    expect(renderProfile(packed)).toContain('0.5 messages/s of 100 requests, gathered in 1.98 s, at random');
    expect(packed.answer.chosen.p99AgeMs).toBeGreaterThan(1_980);
    const late = reportOf({ messagesPerSecond: 0.05, requestsPerMessage: 1_000 });
    expect(late.recommendation).toMatchObject({ withinBudget: false, reason: expect.stringMatching(/this takes 20/) });
    expect(renderProfile(late)).toContain('Not recommended, as nothing keeps to the budget');
  });

  it('takes as the knee the rows beyond which twice the rows give less than 5 % more', () => {
    // 64 rows give 5.9 % more than 32 rows, and 128 rows 3 % more than 64.
    const report = reportOf({ msOf: (rows) => 0.4 + 0.1 * rows });
    expect(report.knee).toMatchObject({ rows: 64, isOpen: false });
    expect(pageOf(report).chart.words).toMatch(/^runs of 64 rows on 2 threads, as deployed here, give /);
  });

  it('finds no knee where the largest runs still gain', () => {
    const report = reportOf({ ...RAGGED, msOf: (rows) => 1 + 0.001 * rows });
    expect(report.knee).toMatchObject({ rows: 256, isOpen: true });
    expect(renderProfile(report)).toMatch(
      /^Knee: throughput still grows at the largest runs of 256 rows of length 32 on 2 threads, /m,
    );
  });

  it('is one file that fetches nothing, and whose data cannot become markup', async () => {
    const hostile = `</script><script>alert("1")</script>'&<b x="`;
    const { measured, recommendation } = REPORT;
    const report: ProfileReport = {
      ...REPORT,
      measured: { ...measured, model: hostile, version: hostile, provider: hostile, findings: [hostile] },
      recommendation: { ...recommendation, reason: hostile, props: [hostile] },
    };
    const page = await reportPage(pageOf(report));
    expect(page).toMatch(/content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[\w+/=]+'"/);
    expect(page.match(/<\/?script/g)).toHaveLength(4);
    const [, data = ''] = /<script type="application\/json" id="report">(.*?)<\/script>/s.exec(page) ?? [];
    expect(JSON.parse(data)).toEqual(pageOf(report));
    expect(page).not.toMatch(/<(link|img|iframe|object|embed|base)\b/);
  });
});
