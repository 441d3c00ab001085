/** Makes the pictures of docs/page.md and docs/tuning.md anew: `npm run pictures`. It takes about a minute. */
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import type { Page } from 'playwright-core';
import { localBucketClient } from '../../../cli/local/localServices.ts';
import { putModel } from '../../contract/cli/models.ts';
import { REPOSITORY, type RunningDev, runScript, startDev } from '../../helpers/command.ts';
import { fileOf, row } from '../../helpers/jobs.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import { cancelJob, launchBrowser, openPage } from './browser.ts';

const WIDTH = 1280;
const pathOf = (name: string): string => fileURLToPath(new URL(`../../../docs/${name}.png`, import.meta.url));

const browser = await launchBrowser();
const pieces = { BATCHSCORE_JOBS_PART_BYTES: '20000', BATCHSCORE_JOBS_PIECE_BYTES: '1000' };
const dev = await startDev(['--batch-size', '100', '--window', '1'], { env: pieces });
const folder = mkdtempSync(join(tmpdir(), 'batchscore-pictures-'));
try {
  await pictureOfProfile();
  await pictureOfOwnModels();
  const page = await open(dev);
  await page.locator('#facts').getByText('in flight').waitFor();
  await page.screenshot({ path: pathOf('page-phone') });
  await page.setViewportSize({ width: WIDTH, height: 1_130 });
  await showLoad(page);
  await page.screenshot({ path: pathOf('page') });
  await showJobs(page);
  await page.locator('#jobs').screenshot({ path: pathOf('page-jobs') });
  await page.setViewportSize({ width: WIDTH, height: 640 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.evaluate('scrollTo(0, 0)');
  await dev.interrupt();
  await page.locator('#gone').waitFor();
  await page.screenshot({ path: pathOf('page-gone') });
} finally {
  await browser.close();
  await dev.interrupt();
  rmSync(folder, { recursive: true });
}

async function open({ stack: { page: url } }: RunningDev): Promise<Page> {
  assert.ok(url !== undefined);
  const { page } = await openPage(browser, url, { viewport: { width: 360, height: 900 } });
  await page.locator('#connection', { hasText: 'Live' }).waitFor();
  await page.locator('#ways label').first().waitFor();
  return page;
}

async function pictureOfProfile(): Promise<void> {
  const digits = join(folder, 'digits');
  cpSync(join(REPOSITORY, 'models/digits'), digits, { recursive: true });
  const { code, stderr } = await runScript('cli/batchscore.ts', ['profile', digits, '--rows-per-month', '10000000']);
  assert.equal(code, 0, stderr);
  const file = pathToFileURL(join(digits, '1/profile.html')).href;
  const { page } = await openPage(browser, file, { viewport: { width: WIDTH, height: 1_130 } });
  await page.locator('canvas').last().waitFor();
  await page.screenshot({ path: pathOf('profile-page') });
  rmSync(digits, { recursive: true });
}

async function pictureOfOwnModels(): Promise<void> {
  await putModel(folder, 'prices', identityModel());
  await putModel(folder, 'words', identityModel('BYTES', ['batch', 1]));
  const own = await startDev(['--models', folder, '--window', '0', '--batch-size', '10']);
  try {
    const page = await open(own);
    await page.setViewportSize({ width: WIDTH, height: 900 });
    await page.getByLabel('prices', { exact: true }).check();
    await page.getByLabel('x FP32 [batch, 3]').fill('1, 2.5, -3, 4, 5, 6');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.locator('#answer .lead').waitFor();
    await page.locator('#try').screenshot({ path: pathOf('page-own') });
  } finally {
    await own.interrupt();
  }
}

/** Some bursts, three errors, and the answer to a digit. */
async function showLoad(page: Page): Promise<void> {
  for (let burst = 0; burst < 12; burst++) {
    const answered = page.locator('#answer .lead', { hasText: ' sure' });
    await page.getByRole('button', { name: 'Send 500 times' }).first().click();
    await answered.waitFor();
    for (let single = 0; single < burst % 4; single++) {
      await page.getByRole('button', { name: 'Send', exact: true }).click();
      await answered.waitFor();
    }
  }
  await page.getByLabel('Any request').check();
  await page.getByLabel('Body of the message').fill('{"instances":[[1]]}');
  for (let sent = 0; sent < 3; sent++) await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.locator('#answer .lead', { hasText: 'INVALID_SHAPE' }).waitFor();
  await page.getByLabel('digits', { exact: true }).check();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.locator('#answer .lead', { hasText: ' sure' }).waitFor();
  await page.mouse.move(0, 0);
}

/** One that is done, one that failed, one that was cancelled and one that runs. */
async function showJobs(page: Page): Promise<void> {
  const s3 = localBucketClient(dev.stack.s3Endpoint, dev.stack.region);
  const put = (name: string, rows: readonly string[]) =>
    s3.send(new PutObjectCommand({ Bucket: dev.stack.jobBucket, Key: `jobs/in/${name}`, Body: fileOf(rows) }));
  const job = (name: string) => page.locator('#job-list li', { hasText: name });
  const scored = /^[1-9]\d* of \d+ pieces scored/;
  const rows = (count: number): string[] => Array.from({ length: count }, (_, turn) => row(turn));
  try {
    await put('orders.jsonl', rows(40));
    await job('orders.jsonl')
      .getByText(/^done: /)
      .waitFor();
    await put('rows.txt', rows(1));
    await job('rows.txt').locator('.error').waitFor();
    await put('mistaken.jsonl', rows(4_000));
    await job('mistaken.jsonl').getByText(scored).waitFor();
    await cancelJob(dev, await job('mistaken.jsonl').locator('.aside').first().innerText());
    await job('mistaken.jsonl')
      .getByText(/^cancelled, /)
      .waitFor();
    await put('many.jsonl', rows(4_000));
    await job('many.jsonl').getByText(scored).waitFor();
  } finally {
    s3.destroy();
  }
}
