import { beforeAll, describe, expect, it } from '@jest/globals';
import { renderPage, verdictOf } from '../../../../../cli/profile/page/profilePage.ts';
import type { ProfileReport } from '../../../../../cli/profile/profileReport.ts';
import { attributes, malformed } from './markup.ts';
import { type Given, reportOf } from './reports.ts';

const RAGGED: Given = { lengths: [32, 64, 128], messagesPerSecond: 5, hasGpu: true };

describe.each([
  ['rows of one length', {}],
  ['rows of several lengths and a GPU', RAGGED],
  ['one size alone, on one thread', { maxRows: 1, threads: [1], msOf: () => 40 }],
  ['a rate and a budget beyond all charts', { messagesPerSecond: 20_000, budgetMs: 3_600_000 }],
] as const)('the page of %s', (_, given: Given) => {
  let report: ProfileReport;
  let page: string;
  beforeAll(async () => {
    report = reportOf(given);
    page = await renderPage(report);
  });

  it('is well-formed', () => expect(malformed(page)).toEqual([]));

  it('fetches nothing and runs nothing', () => {
    expect(page).toContain(`content="default-src 'none'; style-src 'unsafe-inline'"`);
    expect(page).not.toMatch(
      /<(script|link|img|iframe|object|embed|base|form)\b| on[a-z]+=|url\(|@import|javascript:/i,
    );
    expect(page).not.toMatch(/https?:/);
    for (const address of attributes(page, '(?:xlink:)?href')) expect(address).toMatch(/^#/);
  });

  it('refers only to what is there, by names that are there once', () => {
    const ids = attributes(page, 'id');
    expect(new Set(ids).size).toBe(ids.length);
    const references = attributes(page, 'aria-labelledby').flatMap((names) => names.split(' '));
    expect(references.length).toBeGreaterThan(0);
    const links = attributes(page, 'href').map((address) => address.slice(1));
    expect(ids).toEqual(expect.arrayContaining([...references, ...links]));
  });

  it('has headings in order, and the recommendation before all else', () => {
    const levels = [...page.matchAll(/<h([1-6])>/g)].map(([, level]) => Number(level));
    expect(levels[0]).toBe(1);
    for (const [index, level] of levels.slice(1).entries()) expect(level - (levels[index] ?? 0)).toBeLessThanOrEqual(1);
    expect(page).toMatch(/<main>\n<section id="recommendation">/);
  });

  it('holds in its tables what was found, and nothing else', () => {
    const found = new Set(numbersIn(report).map(String));
    const shown = attributes(page, 'value');
    expect(shown.length).toBeGreaterThan(30);
    expect(shown.filter((value) => !found.has(value))).toEqual([]);
    for (const { rowsPerSecond, medianMs, peakRssBytes } of report.measured.table) {
      expect(shown).toEqual(expect.arrayContaining([rowsPerSecond, medianMs, peakRssBytes].map(String)));
    }
  });

  it('gives each chart a name and its essence in words', () => {
    const charts = [...page.matchAll(/<svg [^>]*role="img" aria-labelledby="(\S+) (\S+)">/g)];
    expect(charts.length).toBeGreaterThanOrEqual(14);
    for (const [, title, description] of charts) {
      expect(page).toMatch(
        new RegExp(`<title id="${title}">[^<]{10,}</title><desc id="${description}">[^<]*\\d[^<]*</desc>`),
      );
    }
  });
});

function numbersIn(value: unknown): number[] {
  if (typeof value === 'number') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(numbersIn) : [];
}

const REPORT = reportOf();

describe('what the page says', () => {
  it('recommends in words and as a fragment that can be copied', async () => {
    const page = textOf(await renderPage(REPORT));
    const { batchSize, windowSeconds, reason, context } = REPORT.recommendation;
    expect(page).toContain(
      `Hand over up to ${batchSize} messages at a time; wait ${windowSeconds} s for them at most.`,
    );
    expect(page).toContain(reason.slice(1));
    expect(page).toContain(JSON.stringify({ context }, null, 2));
  });

  it('says not to batch where that does not pay', async () => {
    const page = await renderPage(reportOf({ msOf: (rows) => 5 * rows }));
    expect(page).toContain('Do not batch: hand over one message at a time.');
  });

  it('names the knee, the budget, the break-even points and what has no price', async () => {
    const report = reportOf(RAGGED);
    const page = await renderPage(report);
    expect(page).toMatch(/knee is at \d+ rows: [\d,]+ rows\/s, [\d.]+ times as many as in runs of 1 row/);
    expect(page).toMatch(/<text[^>]*>knee: \d+ rows<\/text>/);
    expect(page).toMatch(/<text[^>]*>(↑ )?budget: 2 s<\/text>/);
    expect(report.answer.breakEvens.length).toBeGreaterThan(0);
    for (const { cheaper, than } of report.answer.breakEvens)
      expect(page).toContain(`${cheaper} is cheaper than ${than}.`);
    expect(page).toMatch(/Nothing was measured on instances with a GPU \(g4dn\.xlarge, /);
    expect(page).toMatch(/A row of length 32 that is padded to 128 takes [\d.]+ times as long/);
  });

  it.each([
    ['independent', 'Rows are independent', '64 rows were run alone and in company. Their answers differed by 1.2e-7'],
    ['trusted', 'Rows share runs unchecked', 'nothing was compared'],
    ['unknown', 'Whether rows are independent is unknown', 'until requests have proved it'],
    ['dependent', 'Rows depend on each other', 'rows run alone'],
    ['alone', 'Rows run alone', 'config.json says so'],
  ] as const)('words the verdict %s', (verdict, title, explanation) => {
    const worded = verdictOf({ verdict, maxDifference: verdict === 'independent' ? 1.2e-7 : null, probes: 64 });
    expect(worded).toMatchObject({ title, explanation: expect.stringContaining(explanation) });
  });

  it('shows what is hostile as the text that it is', async () => {
    const hostile = `</title><script>alert("1")</script>'&<b x="`;
    const hostileForm = <One extends { readonly name: string }>(one: One): One => ({
      ...one,
      name: `${hostile}, ${one.name}`,
    });
    const { measured, answer } = REPORT;
    const page = await renderPage({
      ...REPORT,
      measured: { ...measured, model: hostile, version: hostile, provider: hostile, findings: [hostile] },
      answer: { ...answer, forms: answer.forms.map(hostileForm), curves: answer.curves.map(hostileForm) },
      recommendation: { ...REPORT.recommendation, reason: hostile, context: { [hostile]: hostile } },
      asked: hostile,
      notes: [hostile],
    });
    expect(malformed(page)).toEqual([]);
    expect(page).not.toMatch(/<script|<b /);
    expect(page.split('&lt;script&gt;').length - 1).toBeGreaterThanOrEqual(15);
  });
});

/** As it reads. */
function textOf(page: string): string {
  return page
    .replace(/&quot;/g, '"')
    .replace(/&#39;/g, "'")
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&amp;/g, '&');
}
