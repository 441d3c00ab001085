import { beforeAll, describe, expect, it } from '@jest/globals';
import { renderPage as renderedPage } from '../../../../../cli/profile/page/profilePage.ts';
import { CANDIDATE_COLUMNS, type ProfileReport, RUN_COLUMNS } from '../../../../../cli/profile/profileReport.ts';
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
  beforeAll(() => {
    report = reportOf(given);
    page = renderPage(report);
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

  it('holds in its tables what was measured and simulated', () => {
    const rows = [...page.matchAll(/<tr[^>]*>(.*?)<\/tr>/g)].map(([, row = '']) =>
      row.replace(/<span.*?<\/span>/g, '').replace(/(<[^>]*>)+/g, '|'),
    );
    const expected = [
      ...report.measured.table.map((run) => RUN_COLUMNS.map(([, cell]) => cell(run))),
      ...report.answer.candidates.map((one) => CANDIDATE_COLUMNS.map(([, cell]) => cell(one))),
    ];
    expect(rows).toEqual(expect.arrayContaining(expected.map((cells) => `|${cells.join('|')}|`)));
  });

  it('gives each chart a name, its essence in words, and lines within it', () => {
    const charts = [...page.matchAll(/<svg [^>]*role="img" aria-labelledby="(\S+) (\S+)">.*?<\/svg>/gs)];
    expect(charts).toHaveLength(4);
    for (const [drawing, title, description] of charts) {
      expect(page).toMatch(
        new RegExp(`<title id="${title}">[^<]{10,}</title><desc id="${description}">[^<]*\\d[^<]*</desc>`),
      );
      const places = [...drawing.matchAll(/[ML]([\d.-]+) ([\d.-]+)|cx="([^"]+)" cy="([^"]+)"/g)];
      expect(places.length).toBeGreaterThan(5);
      for (const [, left, top, x = left, y = top] of places) {
        expect([Number(x) >= 46 && Number(x) <= 314, Number(y) >= 26 && Number(y) <= 208]).toEqual([true, true]);
      }
    }
  });
});

const REPORT = reportOf();

/** A number and its sign stay on one line, which a reader does not see. */
const renderPage = (report: ProfileReport): string => renderedPage(report).replaceAll('\u00a0', ' ');

describe('what the page says', () => {
  it('recommends in words and as props that can be copied', () => {
    const page = textOf(renderPage(REPORT));
    const { batchSize, windowSeconds, reason, props } = REPORT.recommendation;
    expect(page).toContain(
      `Hand over up to ${batchSize} messages at a time; wait ${windowSeconds} s for them at most.`,
    );
    expect(page).toContain(reason.slice(1));
    expect(page).toContain(props.join('\n'));
  });

  it('names the knee, the budget, padding, forms of compute and what has no price', () => {
    const report = reportOf({ ...RAGGED, budgetMs: 30 });
    const page = renderPage(report);
    expect(page).toMatch(/Runs of \d+ rows of length 32 give [^.]* on 2 threads, as deployed here\./);
    expect(page).toMatch(/<\/svg> knee: \d+ rows<\/li>/);
    expect(page).toContain('</svg> budget: 30 ms</li>');
    expect(page).toMatch(/<th scope="row">ecs-gpu g5\.xlarge<\/th>/);
    expect(page).toMatch(/Not measured: lambda-gpu g4dn\.xlarge, /);
    expect(page).toMatch(/a row of length 32 that is padded to 128 takes [\d.]+ times as long/);
  });

  it('takes as the knee the fewest rows that give 95 % of the most rows a second', () => {
    // 64 rows give 95.6 % of what 256 give, 32 rows 90 %.
    expect(reportOf({ msOf: (rows) => 0.4 + 0.1 * rows }).knee).toMatchObject({ rows: 64, maxAtRows: 256 });
  });

  it('shows what is hostile as the text that it is', () => {
    const hostile = `</title><script>alert("1")</script>'&<b x="`;
    const hostileForm = <One extends { readonly name: string }>(one: One): One => ({
      ...one,
      name: `${hostile}, ${one.name}`,
    });
    const { measured, answer } = REPORT;
    const page = renderPage({
      ...REPORT,
      measured: { ...measured, model: hostile, version: hostile, provider: hostile, findings: [hostile] },
      answer: { ...answer, forms: answer.forms.map(hostileForm) },
      recommendation: { ...REPORT.recommendation, reason: hostile, props: [hostile] },
    });
    expect(malformed(page)).toEqual([]);
    expect(page).not.toMatch(/<script|<b /);
    expect(page.split('&lt;script&gt;').length - 1).toBeGreaterThanOrEqual(12);
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

/** Elements that have no end. */
const VOID = new Set(['meta', 'link', 'br', 'hr', 'img', 'input']);

/** The problems of markup whose elements are not closed in order, or whose attributes are not quoted. */
function malformed(page: string): string[] {
  const problems: string[] = [];
  const open: string[] = [];
  const body = page.replace(/^<!doctype html>\n/, '').replace(/<style>[^<]*<\/style>/, '');
  for (const [tag, isEnd, name = '', rest = ''] of body.matchAll(/<(\/?)([a-z][a-z0-9]*)((?:[^>"]|"[^"]*")*)>/gi)) {
    if (isEnd === '/') {
      const last = open.pop();
      if (last !== name) problems.push(`${tag} closes ${last}`);
      continue;
    }
    if (rest.replace(/ [a-z][a-zA-Z0-9:-]*(="[^"<]*")?/g, '').replace('/', '') !== '')
      problems.push(`attributes of ${tag}`);
    if (!VOID.has(name) && !rest.endsWith('/')) open.push(name);
  }
  const texts = body.replace(/<\/?[a-z][a-z0-9]*(?:[^>"]|"[^"]*")*>/gi, '');
  for (const [stray] of texts.matchAll(/[<>]|&(?!(amp|lt|gt|quot|#39);)/g)) problems.push(`stray ${stray}`);
  return [...problems, ...open.map((name) => `${name} stays open`)];
}

/** The values of an attribute, in order. */
function attributes(page: string, name: string): string[] {
  return [...page.matchAll(new RegExp(` ${name}="([^"]*)"`, 'g'))].map(([, value = '']) => value);
}
