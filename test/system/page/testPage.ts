/** Opens the profile's page in Chromium, at the widths of a phone, a tablet and a desk, light, dark and on paper. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { reportPage } from '../../../cli/page/pageFiles.ts';
import { pageOf } from '../../../cli/profile/profileReport.ts';
import { type Given, reportOf } from '../../unit/cli/profile/reports.ts';
import { launchBrowser, type Opened, openPage, violationsOf } from './browser.ts';
import { drawnAt, focused, illegible, inkColour, overflowing, reachable, twoFrames } from './inPage.js';

const PAGES: Readonly<Record<string, Given>> = {
  ragged: { lengths: [32, 64, 128, 256], threads: [1, 2, 4], messagesPerSecond: 5 },
  single: { maxRows: 1, threads: [1], msOf: () => 40 },
  beyond: { messagesPerSecond: 20_000, budgetMs: 3_600_000 },
};
const WIDTHS = [360, 768, 1280];
/** Of A4 between margins of 15 mm. */
const PAPER_WIDTH = 680;
const HEIGHT = 900;

let browser: Browser;
let folder: string;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'batchscore-page-'));
  for (const [name, given] of Object.entries(PAGES)) {
    writeFileSync(join(folder, `${name}.html`), await reportPage(pageOf(reportOf(given))));
  }
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

for (const name of Object.keys(PAGES)) {
  for (const colorScheme of ['light', 'dark'] as const) {
    describe(`${name}.html, ${colorScheme}`, () => {
      let opened: Opened;
      const found = (problems: () => string[]): Promise<string[]> => opened.page.evaluate(problems);
      before(async () => {
        opened = await open(name, { viewport: { width: WIDTHS[0] ?? 0, height: HEIGHT }, colorScheme });
      });
      after(() => opened.page.context().close());

      it('asks for nothing and complains of nothing', () => {
        assert.deepEqual(opened.requests, [fileOf(name)]);
        assert.deepEqual(opened.complaints, []);
      });
      it('breaks no rule of axe', async () => assert.deepEqual(await violationsOf(opened.page), []));
      for (const width of WIDTHS) {
        it(`fits ${width} pixels, draws its chart, and is legible`, async () => {
          await opened.page.setViewportSize({ width, height: HEIGHT });
          await opened.page.evaluate(twoFrames);
          for (const problems of [overflowing, illegible]) assert.deepEqual(await found(problems), []);
          assert.equal(await opened.page.locator('canvas').count(), 1);
          if (name !== 'single') assert.deepEqual(await opened.page.evaluate(drawnAt, [0.3, 0.7]), [true, true]);
        });
      }
    });
  }

  it(`${name}.html is reached by keyboard, and shows where it is`, async () => {
    const { page } = await open(name, { viewport: { width: 768, height: HEIGHT } });
    const expected = await page.evaluate(reachable);
    const reached = new Set<string>();
    for (let press = 0; press < expected; press++) {
      await page.keyboard.press('Tab');
      const { name: element, shows } = await page.evaluate(focused);
      assert.equal(shows, true, `${element} shows that it is reached`);
      reached.add(`${press} ${element}`);
    }
    assert.equal(reached.size, expected);
    await page.context().close();
  });

  it(`${name}.html is printed in dark ink on A4, without what only a screen needs`, async () => {
    const { page } = await open(name, { viewport: { width: PAPER_WIDTH, height: HEIGHT }, colorScheme: 'dark' });
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    assert.equal(await page.evaluate(inkColour), 'rgb(22, 25, 29)');
    await page.evaluate(twoFrames);
    assert.deepEqual(await page.evaluate(overflowing), []);
    for (const hidden of ['details', '.skip']) {
      assert.equal(await page.locator(hidden).first().isVisible(), false);
    }
    const pdf = (await page.pdf({ preferCSSPageSize: true })).toString('latin1');
    assert.match(pdf, /\/MediaBox\s*\[0 0 59[45](\.\d+)? 84[12](\.\d+)?\]/);
    await page.context().close();
  });
}

function open(name: string, options: BrowserContextOptions): Promise<Opened> {
  return openPage(browser, fileOf(name), options);
}

function fileOf(name: string): string {
  return pathToFileURL(join(folder, `${name}.html`)).href;
}
