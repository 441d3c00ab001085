/** Opens the page of `npm run dev` in Chromium, and does with it what a person would. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { putModel } from '../../contract/cli/models.ts';
import { type RunningDev, startDev } from '../../helpers/command.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import { launchBrowser, type Opened, openPage, violationsOf } from './browser.ts';
import { focused, illegible, openDetails, overflowing, twoFrames } from './inPage.js';

const WIDTHS = [390, 768, 1280];
const HEIGHT = 900;

let browser: Browser;
let dev: RunningDev;
let opened: Opened | undefined;
before(async () => {
  [browser, dev] = await Promise.all([launchBrowser(), startDev(['--batch-size', '10', '--window', '0'])]);
});
after(async () => {
  await browser?.close();
  await dev?.interrupt();
});
afterEach(() => opened?.page.context().close());

async function open(options: BrowserContextOptions = {}, url = dev.stack.page): Promise<Page> {
  opened = await openPage(browser, url ?? '', { viewport: { width: 1280, height: HEIGHT }, ...options });
  await status(opened.page, 'Live');
  return opened.page;
}

function status(page: Page, text: string): Promise<void> {
  return page.locator('#connection', { hasText: text }).waitFor();
}

function send(page: Page): Promise<void> {
  return page.getByRole('button', { name: 'Send' }).click();
}

/** The answer's essence, once it is there. @param like what it must begin with, as an older one may be there still */
async function answered(page: Page, like: string | RegExp): Promise<string> {
  await page.locator('#answer .lead', { hasText: like }).waitFor();
  return page.locator('#answer').innerText();
}

/** Turns the load up, or down to nothing. */
async function setLoad(page: Page, presses: number): Promise<void> {
  await page.getByRole('slider', { name: 'Load' }).press('Home');
  for (let press = 0; press < presses; press++) await page.getByRole('slider', { name: 'Load' }).press('ArrowRight');
}

describe('the page of npm run dev', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`fits, is legible and breaks no rule of axe, ${colorScheme}, with all that it can show`, async () => {
      const page = await open({ colorScheme });
      await page.getByLabel('Any request').check();
      await page.getByLabel('Body of the message').fill('{"instances":[[1]]}');
      await send(page);
      await answered(page, 'INVALID_SHAPE');
      await setLoad(page, 6);
      await page.locator('#invocation-list li').nth(3).waitFor();
      await page.locator('#error-list li').first().waitFor();
      await page.getByRole('button', { name: 'Pause' }).click();
      await setLoad(page, 0);
      assert.deepEqual(await violationsOf(page), []);
      await page.evaluate(openDetails);
      assert.deepEqual(await violationsOf(page), []);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: HEIGHT });
        // Charts take the width of their place in the frame after it has changed.
        await page.evaluate(twoFrames);
        for (const problems of [overflowing, illegible])
          assert.deepEqual([width, await page.evaluate(problems)], [width, []]);
      }
      assert.deepEqual(opened?.complaints, []);
      const own = dev.stack.page ?? '';
      assert.deepEqual(
        opened?.requests.filter((url) => !url.startsWith(own)),
        [],
      );
    });
  }

  it('sends the digit that was drawn, and shows the answer and the micro-batch that it rode in', async () => {
    const page = await open();
    await page.getByRole('button', { name: 'Clear' }).click();
    const { x = 0, y = 0, width = 0 } = (await page.getByRole('grid').boundingBox()) ?? {};
    const strokes = [
      [3, 2],
      [4.2, 1],
      [4.2, 7.3],
    ].map(([column = 0, row = 0]) => [x + (column * width) / 8, y + (row * width) / 8] as const);
    for (const [index, at] of strokes.entries()) {
      await page.mouse.move(...at);
      if (index === 0) await page.mouse.down();
    }
    await page.mouse.up();
    await send(page);
    const answer = await answered(page, '1, ');
    assert.match(
      answer,
      /It rode in micro-batch 1 of invocation #\d+, 1 row, run in [\d.]+\sms \(closed: end of the batch/,
    );
    assert.match(
      answer,
      /It waited [\d.]+\s(ms|s) for its invocation, and was answered [\d.]+\s(ms|s) after it was sent/,
    );
    await page.getByText('The whole answer').click();
    assert.match(await page.getByRole('region', { name: 'The whole answer' }).innerText(), /"model_name": "digits"/);
    assert.equal(await page.locator('#answer .piece.marked').count(), 1);
  });

  it('is drawn on by keyboard too, and says what each cell holds', async () => {
    const page = await open();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByRole('gridcell', { name: 'row 1, column 1: 0 of 16' }).focus();
    for (const key of ['ArrowRight', 'ArrowDown', 'ArrowDown', 'Space']) await page.keyboard.press(key);
    await page.getByRole('gridcell', { name: 'row 3, column 2: 16 of 16' }).waitFor();
    for (const key of ['Space', 'ArrowUp', 'End', 'ArrowRight', 'Space']) await page.keyboard.press(key);
    await page.getByRole('gridcell', { name: 'row 3, column 2: 0 of 16' }).waitFor();
    await page.getByRole('gridcell', { name: 'row 2, column 8: 16 of 16' }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await answered(page, ' sure');
  });

  it('routes the ticket that was typed', async () => {
    const page = await open();
    await page.getByLabel('A ticket').check();
    await page.getByLabel('Text of the ticket').fill('I was charged twice for one order, please refund me');
    await send(page);
    assert.match(await answered(page, ' sure'), /^[a-z_ -]+, [\d.]+\s% sure/i);
  });

  it('shows errors with their sentences as text, whatever they quote', async () => {
    const page = await open();
    await page.getByLabel('Any request').check();
    await page
      .getByLabel('Body of the message')
      .fill('{"model_name":"<img src=x onerror=document.title=1>","instances":[1]}');
    await send(page);
    assert.match(await answered(page, 'UNKNOWN_MODEL'), /<img src=x onerror=document.title=1>/);
    await page.locator('#error-list', { hasText: '<img src=x' }).waitFor();
    await page.locator('#codes', { hasText: 'UNKNOWN_MODEL' }).waitFor();
    assert.equal(await page.locator('img').count(), 0);
    assert.equal(await page.title(), 'batchscore dev');
  });

  it('changes load, size and window while it runs, in every page that is open', async () => {
    const page = await open();
    const other = await openPage(browser, dev.stack.page ?? '', {});
    await page.getByRole('spinbutton', { name: 'Batch size' }).fill('7');
    await page.getByRole('spinbutton', { name: 'Window' }).fill('1');
    await page.getByRole('spinbutton', { name: 'Window' }).press('Enter');
    await setLoad(page, 7);
    const full = / 7 messages in .*100\s%\sof the batch size, as the batch was full/s;
    await page.locator('#invocation-list li', { hasText: full }).first().waitFor();
    await page.getByText('100 a second', { exact: true }).waitFor();
    await other.page.getByText('100 a second', { exact: true }).waitFor();
    assert.equal(await other.page.getByRole('spinbutton', { name: 'Batch size' }).inputValue(), '7');
    assert.match(
      (await page.getByRole('img', { name: 'Messages a second' }).getAttribute('aria-label')) ?? '',
      /answered: /,
    );
    await setLoad(page, 0);
    await other.page.context().close();
  });

  it('says why AWS would refuse a size or a window, and changes nothing', async () => {
    const page = await open();
    await page.getByRole('spinbutton', { name: 'Window' }).fill('0');
    await page.getByRole('spinbutton', { name: 'Batch size' }).fill('11');
    await page.getByRole('spinbutton', { name: 'Batch size' }).press('Enter');
    await page.getByRole('alert').filter({ hasText: 'expected at least 1 with a batchSize above 10' }).waitFor();
    await page.getByRole('spinbutton', { name: 'Batch size' }).fill('');
    await page.getByRole('spinbutton', { name: 'Batch size' }).press('Enter');
    await page.getByRole('alert').filter({ hasText: 'both whole numbers' }).waitFor();
    await page.getByRole('spinbutton', { name: 'Window' }).fill('0');
    await page.getByRole('spinbutton', { name: 'Batch size' }).fill('10');
    await page.getByRole('spinbutton', { name: 'Batch size' }).press('Enter');
    await page.locator('#refused').waitFor({ state: 'hidden' });
  });

  it('stands still while it is paused, and shows afterwards what came', async () => {
    const page = await open();
    await page.getByRole('button', { name: 'Pause' }).click();
    await status(page, 'Paused');
    const before = await page.locator('#facts').innerText();
    await send(page);
    await answered(page, ' sure');
    assert.equal(await page.locator('#facts').innerText(), before);
    const [number = ''] = /#\d+/.exec(await page.locator('#answer').innerText()) ?? [];
    assert.equal(await page.locator('#invocation-list', { hasText: `${number} ` }).count(), 0);
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('#invocation-list', { hasText: `${number} ` }).waitFor();
  });

  it('is reached by keyboard, all of it, and shows where it is', async () => {
    const page = await open({ viewport: { width: 390, height: HEIGHT } });
    const names: string[] = [];
    for (let press = 0; press < 60; press++) {
      await page.keyboard.press('Tab');
      const { name, shows } = await page.evaluate(focused);
      if (name.startsWith('BODY')) break;
      assert.equal(shows, true, `${name} shows that it is reached`);
      names.push(name);
    }
    const reached = names.join('\n');
    for (const one of ['BUTTON Pause', 'BUTTON Send', 'BUTTON Clear']) {
      assert.ok(reached.includes(one), `${one} is among\n${reached}`);
    }
    const kinds = names.map((name) => name.split(' ')[0]);
    assert.equal(kinds.filter((kind) => kind === 'INPUT').length, 4, reached);
    assert.equal(kinds.filter((kind) => kind === 'DIV').length, 1, 'of the digit, one cell is a stop');
  });
});

describe('the page of another repository', () => {
  let folder: string;
  let other: RunningDev;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-page-'));
    await putModel(folder, 'same', identityModel());
    other = await startDev(['--models', folder, '--window', '0', '--batch-size', '10']);
  });
  after(async () => {
    await other.interrupt();
    rmSync(folder, { recursive: true });
  });

  it('offers any request, neither digit nor ticket, and says when the stack is gone', async () => {
    const page = await open({}, other.stack.page);
    await page.locator('#model-list', { hasText: 'FP32 [batch, 3]' }).waitFor();
    assert.equal(await page.getByRole('grid').count(), 0);
    assert.equal(await page.getByLabel('A ticket').count(), 0);
    assert.equal(await page.getByRole('slider', { name: 'Load' }).isVisible(), false);
    await page.getByLabel('Body of the message').fill('{"instances":[[1,2,3]]}');
    await send(page);
    assert.match(await answered(page, 'Answered.'), /invocation #1, 1 row/);
    await other.interrupt();
    await status(page, 'Not connected');
  });
});
