import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { messageOf } from '../../../lambda/core/failure.ts';
import { type RunningDev, runScript } from '../../helpers/command.ts';
import { findChromium } from './findChromium.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** A headless Chromium. The process ends, and says what to do, where there is none. */
export function launchBrowser(): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking'];
  return chromium.launch({ executablePath: chromiumOrEnd(), args });
}

function chromiumOrEnd(): string {
  try {
    return findChromium();
  } catch (error) {
    process.stderr.write(`test:page: ${messageOf(error)}\n`);
    process.exit(1);
  }
}

export interface Opened {
  readonly page: Page;
  readonly requests: string[];
  /** Of the console, and errors that nobody caught. */
  readonly complaints: string[];
}

/** Opens a page in a profile of its own. */
export async function openPage(browser: Browser, url: string, options: BrowserContextOptions): Promise<Opened> {
  const page = await (await browser.newContext(options)).newPage();
  const opened: Opened = { page, requests: [], complaints: [] };
  page.on('request', (request) => opened.requests.push(request.url()));
  page.on('console', (message) => opened.complaints.push(message.text()));
  page.on('pageerror', (error) => opened.complaints.push(error.message));
  await page.goto(url);
  return opened;
}

/** Cancels a job as a user would, with the command. */
export async function cancelJob({ firstLine }: RunningDev, job: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-stack-'));
  const stack = join(folder, 'stack.json');
  writeFileSync(stack, firstLine);
  const { code, stderr } = await runScript('cli/batchscore.ts', ['job', 'cancel', job, '--stack', stack]);
  rmSync(folder, { recursive: true });
  assert.equal(code, 0, stderr);
}

/** @see https://github.com/dequelabs/axe-core/blob/develop/doc/rule-descriptions.md */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate('axe.run(document, { resultTypes: ["violations"] })');
  const { violations } = found as { violations: { id: string; nodes: { html: string }[] }[] };
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 120)}`);
}
