import { gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { linesOf } from '../../../cli/textFiles.ts';

describe('a file that is no UTF-8', () => {
  it.each([
    ['gzip', gzipSync('x\n1\n'), /^line 1: expected UTF-8, got gzip; unpack the file, as with gunzip$/],
    ['a zip', Buffer.from('PK\x03\x04\xff', 'latin1'), /^line 1: expected UTF-8, got a zip, .* save the sheet as CSV$/],
    [
      'UTF-16',
      Buffer.from('\uFEFFx\n1\n', 'utf16le'),
      /^line 1: expected UTF-8, got UTF-16, .* save the file as UTF-8$/,
    ],
    [
      'another one',
      Buffer.from('x\nPK\xff\n', 'latin1'),
      /^line 2: expected UTF-8, got other bytes; convert the file$/,
    ],
  ])('is told what it is: %s', async (_, bytes, message) => {
    async function* chunks(): AsyncGenerator<Buffer> {
      yield bytes;
    }
    const read = async (): Promise<void> => {
      for await (const _line of linesOf(chunks()));
    };
    await expect(read()).rejects.toThrow(message);
  });
});
