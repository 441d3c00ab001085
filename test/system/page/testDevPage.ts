/** Opens the page of `npm run dev` in Chromium, and does with it what a person would. */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { localBucketClient } from '../../../cli/local/localServices.ts';
import { putModel } from '../../contract/cli/models.ts';
import { type RunningDev, startDev, untilState } from '../../helpers/command.ts';
import { fileOf, row } from '../../helpers/jobs.ts';
import { endlessModel, identityModel } from '../../helpers/onnxModels.ts';
import { cancelJob, launchBrowser, type Opened, openPage, violationsOf } from './browser.ts';
import { drawnAt, focused, illegible, openDetails, overflowing, twoFrames } from './inPage.js';

const WIDTHS = [360, 768, 1280];
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
  return page.getByRole('button', { name: 'Send', exact: true }).click();
}

/** The answer's essence, once it is there. @param like what it must begin with, as an older one may be there still */
async function answered(page: Page, like: string | RegExp): Promise<string> {
  await page.locator('#answer .lead', { hasText: like }).waitFor();
  return page.locator('#answer').innerText();
}

describe('the page of npm run dev', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`fits, is legible and breaks no rule of axe, ${colorScheme}, with all that it can show`, async () => {
      const page = await open({ colorScheme });
      await page.getByLabel('Any request').check();
      await page.getByLabel('Body of the message').fill('{"instances":[[1]]}');
      await send(page);
      await answered(page, 'INVALID_SHAPE');
      await page.getByRole('button', { name: 'Send 500 times' }).first().click();
      await page.locator('#invocation-list li').nth(3).waitFor();
      await page.locator('#result-list .error').first().waitFor();
      await page.getByRole('img', { name: /^Queue to result: p50: [\d.]+/ }).waitFor();
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

  it('sends the digit that was drawn, and shows the answer and why its batch was small', async () => {
    const page = await open();
    await page.getByRole('button', { name: 'Clear' }).click();
    const { x = 0, y = 0, width = 0 } = (await page.locator('.picture').boundingBox()) ?? {};
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
      /It waited [\d.]+\s(ms|s) for invocation #\d+ of 1 message, and was answered [\d.]+\s(ms|s) after it was sent/,
    );
    await page.getByText('The whole answer').click();
    assert.match(await page.getByRole('region', { name: 'The whole answer' }).innerText(), /"model_name": "digits"/);
    assert.match(answer, /10\s% of the batch size, as there is no window/);
  });

  it('is drawn by numbers too', async () => {
    const page = await open();
    const numbers = page.getByLabel('image FP32 [batch, 64]');
    await page.getByRole('button', { name: 'Clear' }).click();
    assert.equal(await numbers.inputValue(), new Array(64).fill(0).join(', '));
    await numbers.fill(new Array(64).fill(16).join(', '));
    assert.equal(
      await page
        .locator('.cell')
        .last()
        .evaluate((cell) => cell.style.getPropertyValue('--level')),
      '1',
    );
    await send(page);
    await answered(page, ' sure');
  });

  it('routes the ticket that was typed', async () => {
    const page = await open();
    await page.getByLabel('tickets', { exact: true }).check();
    await page.getByLabel('text text').fill('I was charged twice for one order, please refund me');
    await send(page);
    assert.match(await answered(page, ' confidence '), /^label [a-z_ -]+ · confidence [\d.]+/i);
  });

  it('shows errors with their sentences as text, whatever they quote', async () => {
    const page = await open();
    await page.getByLabel('Any request').check();
    await page
      .getByLabel('Body of the message')
      .fill('{"model_name":"<img src=x onerror=document.title=1>","instances":[1]}');
    await send(page);
    assert.match(await answered(page, 'UNKNOWN_MODEL'), /<img src=x onerror=document.title=1>/);
    await page.locator('#result-list .error', { hasText: '<img src=x' }).waitFor();
    await page.locator('#codes', { hasText: 'UNKNOWN_MODEL' }).waitFor();
    assert.equal(await page.locator('img').count(), 0);
    assert.equal(await page.title(), 'batchscore dev');
  });

  it('fills batches with what is sent many times, and shows it in every page that is open', async () => {
    const page = await open();
    const other = await openPage(browser, dev.stack.page ?? '', {});
    await page.getByRole('button', { name: 'Send 500 times' }).first().click();
    const full = / 10 messages, .*100\s% of the batch size/s;
    for (const one of [page, other.page]) await one.locator('#invocation-list li', { hasText: full }).first().waitFor();
    await answered(page, ' sure');
    await other.page.getByRole('img', { name: /^Fill: of the batch size: \d+\s%, at most 100\s%/ }).waitFor();
    await other.page.context().close();
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
    for (const one of ['BUTTON Send', 'BUTTON Clear', 'TEXTAREA']) {
      assert.ok(reached.includes(one), `${one} is among\n${reached}`);
    }
    const kinds = names.map((name) => name.split(' ')[0]);
    assert.equal(kinds.filter((kind) => kind === 'INPUT').length, 1, 'one of the choices');
  });
});

describe('the page of jobs', () => {
  it('lists them with their progress and their end', async () => {
    const own = await startDev([], {
      env: { BATCHSCORE_JOBS_PART_BYTES: '20000', BATCHSCORE_JOBS_PIECE_BYTES: '1000' },
    });
    const s3 = localBucketClient(own.stack.s3Endpoint, own.stack.region);
    const put = (name: string, rows: readonly string[]) =>
      s3.send(new PutObjectCommand({ Bucket: own.stack.jobBucket, Key: `jobs/in/${name}`, Body: fileOf(rows) }));
    try {
      const page = await open({ viewport: { width: 360, height: HEIGHT } }, own.stack.page);
      await page.getByText(`aws --endpoint-url ${own.stack.endpoint} s3 cp rows.jsonl`).waitFor();
      const many = Array.from({ length: 4_000 }, (_, turn) => row(turn));
      await put('many.jsonl', many);
      const job = (name: string) => page.locator('#job-list li', { hasText: name });
      await job('many.jsonl')
        .getByText(/^[1-9]\d* of \d+ pieces scored$/)
        .waitFor();
      assert.ok(Number(await job('many.jsonl').locator('progress').getAttribute('value')) > 0);
      await cancelJob(own, await job('many.jsonl').locator('.aside').first().innerText());
      await job('many.jsonl')
        .getByText(/^cancelled, .*; batchscore job resume \w+ goes on$/)
        .waitFor();
      await put('few.jsonl', [row(1), 'no row', row(2)]);
      await put('few.txt', [row(1)]);
      await job('few.jsonl')
        .getByText(/^done: 3 rows, INVALID_JSON 1; batchscore job fetch \w+ has the results$/)
        .waitFor();
      await job('few.txt').locator('.error', { hasText: 'INVALID_JOB: ' }).waitFor();
      assert.equal(await page.getByText('aws --endpoint-url').isVisible(), false);
      assert.deepEqual(await violationsOf(page), []);
      for (const problems of [overflowing, illegible]) assert.deepEqual(await page.evaluate(problems), []);
    } finally {
      s3.destroy();
      await own.interrupt();
    }
  });
});

describe('the page of another repository', () => {
  let folder: string;
  let other: RunningDev;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-page-'));
    await putModel(folder, 'same', identityModel());
    await putModel(folder, 'words', identityModel('BYTES', ['batch', 1]));
    // As skl2onnx has it: an axis without a name.
    await putModel(folder, 'ids', identityModel('INT64', ['?', 1]));
    await putModel(folder, 'endless', endlessModel());
    await putModel(folder, 'twice', identityModel());
    cpSync(join(folder, 'twice', '1'), join(folder, 'twice', '2'), { recursive: true });
    other = await startDev(['--models', folder, '--window', '0', '--batch-size', '10']);
  });
  after(async () => {
    await other.interrupt();
    rmSync(folder, { recursive: true });
  });

  const choose = (page: Page, model: string) => page.getByLabel(model, { exact: true }).check();

  it('has a form made of the inputs of each model, and leads with the values of its answer', async () => {
    const page = await open({}, other.stack.page);
    assert.equal(await page.locator('.picture').count(), 0);
    await choose(page, 'same');
    const numbers = page.getByLabel('x FP32 [batch, 3]');
    assert.match(await numbers.inputValue(), /^-?[\d.]+, -?[\d.]+, -?[\d.]+$/);
    await numbers.fill('1, 2.5, -3, 4, 5, 6');
    await send(page);
    await answered(page, /^1, 2\.5, -3, 4, 5, 6$/);
    await choose(page, 'words');
    await page.getByLabel('x BYTES [batch, 1]').fill('a "word", or two');
    await send(page);
    await answered(page, /^a "word", or two$/);
    await choose(page, 'ids');
    await page.getByLabel('x INT64 [rows, 1]').fill('9007199254740993');
    await send(page);
    // A number beyond 2^53 is refused, not rounded.
    await answered(page, /^INVALID_DATA: .*INT64/);
    await page.getByLabel('x INT64 [rows, 1]').fill('"9007199254740993"');
    await send(page);
    await answered(page, /^9007199254740993$/);
    assert.equal(await page.getByLabel('endless', { exact: true }).count(), 0);
    await page
      .locator('#warnings', { hasText: 'endless: the page has no form for it: it answers none that was made up' })
      .waitFor();
  });

  it('refuses in words of the form, and shows as any request what the form would send', async () => {
    const page = await open({}, other.stack.page);
    await choose(page, 'same');
    await page.getByLabel('x FP32 [batch, 3]').fill('1, 2');
    await send(page);
    await answered(page, /^x: expected a multiple of 3 values, got 2\.$/);
    await page.getByLabel('x FP32 [batch, 3]').fill('1, two, 3');
    await send(page);
    await answered(page, /^x: expected values with commas between them, got 1, two, 3\.$/);
    assert.equal(await page.locator('#answer .lead.error').count(), 1);
    await page.getByLabel('x FP32 [batch, 3]').fill('7, 8, 9');
    await page.getByLabel('Any request').check();
    const shown = await page.getByLabel('Body of the message').inputValue();
    assert.match(shown, /"model_name": "same"[\s\S]*"data": \[7, 8, 9\]/);
    await send(page);
    await answered(page, /^7, 8, 9$/);
  });

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`says what to do where nothing came yet, and fits, ${colorScheme}`, async () => {
      const page = await open({ colorScheme, viewport: { width: 360, height: HEIGHT } }, dev.stack.page);
      await page.getByText(/^None yet\. Put a file of JSON lines/).waitFor();
      assert.deepEqual(await violationsOf(page), []);
    });
  }

  it('has one form for the versions of a model', async () => {
    const page = await open({}, other.stack.page);
    assert.equal(await page.getByLabel('twice', { exact: true }).count(), 1);
  });

  it('keeps the newest values beside the lines of a chart, also seconds after the last answer', async () => {
    const page = await open({}, other.stack.page);
    await choose(page, 'same');
    await send(page);
    await answered(page, /^-?\d/);
    const ended = Math.ceil(Date.now() / 1000);
    await untilState(other.stack.page ?? '', ({ seconds }) => (seconds.at(-1)?.at ?? 0) > ended + 1);
    for (const place of ['#latency', '#fill']) {
      const values = page.locator(`${place} .legend b`).filter({ hasText: /\d/ });
      await values.first().waitFor();
    }
  });

  it('leaves a gap in a line where nothing was answered, and a point for what stands alone', async () => {
    const state = await untilState(other.stack.page ?? '', ({ seconds: [second] }) => second !== undefined);
    const [second] = state.seconds;
    // Of eleven seconds the first three, one on its own, and the last two.
    const seconds = Array.from({ length: 11 }, (_, at) => {
      return { ...second, at, p50Ms: [0, 1, 2, 6, 9, 10].includes(at) ? 50 : null, p99Ms: null };
    });
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.route('**/state', (route) => route.fulfill({ json: { ...state, seconds } }));
    await page.goto(other.stack.page ?? '');
    await page.getByRole('img', { name: /^Queue to result: p50: 50/ }).waitFor();
    await page.evaluate(twoFrames);
    const drawn = await page.evaluate(drawnAt, [0.1, 0.4, 0.6, 0.75, 0.95]);
    assert.deepEqual(drawn, [true, false, true, false, true]);
    await context.close();
  });

  it('serves the models that came while it ran, and says what is wrong with one', async () => {
    const page = await open({}, other.stack.page);
    await putModel(folder, 'later', identityModel());
    await page.getByLabel('later', { exact: true }).waitFor();
    mkdirSync(join(folder, 'empty'));
    await page.locator('#warnings', { hasText: 'empty: expected a version folder such as 1/' }).waitFor();
    await choose(page, 'later');
    await send(page);
    await answered(page, /^-?\d/);
  });

  it('says once that the stack is gone, and greys what is old', async () => {
    const page = await open({}, other.stack.page);
    await page
      .getByLabel('x FP32 [batch, 3]')
      .or(page.getByLabel('same', { exact: true }))
      .first()
      .waitFor();
    await other.interrupt();
    await page.getByRole('alert').filter({ hasText: 'npm run dev does not answer' }).waitFor();
    assert.equal(await page.getByText(/does not answer|not connected/i).count(), 1);
    assert.match(await page.locator('#gone').innerText(), /The values below are from \d\d:\d\d:\d\d/);
    assert.equal(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled(), true);
    assert.deepEqual(await violationsOf(page), []);
    for (const problems of [overflowing, illegible]) assert.deepEqual(await page.evaluate(problems), []);
  });
});
