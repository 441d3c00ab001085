import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { inputFile } from '../../../cli/textFiles.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'batchscore-input-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('what is scored or submitted', () => {
  it('may be a pipe, as of <(gunzip -c file.gz) in a shell', async () => {
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    const { stream, bytes } = await inputFile(pipe, process);
    await Promise.all([writeFile(pipe, 'a\nb\n'), expect(text(stream)).resolves.toBe('a\nb\n')]);
    expect(bytes).toBeUndefined();
  });
});
