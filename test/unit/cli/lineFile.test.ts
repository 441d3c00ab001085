import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { openLineFile } from '../../../cli/network/lineFile.ts';
import { useFolder } from '../../helpers/folders.ts';

const BEGINNINGS = ['{"message_id":'];
const WHOLE = '{"message_id":"a","error":"é"}\n';

describe('a file that lines are added to', () => {
  const inFolder = useFolder();

  it('loses a last line that was cut short, at whatever byte', async () => {
    const [file, cut] = [inFolder('results'), Buffer.from(`{"message_id":"é😀${'x'.repeat(70_000)}`)];
    for (const bytes of [1, 5, 14, 15, 16, 17, 18, 19, 20, 21, 22, cut.length]) {
      const lines: string[] = [];
      for (const before of ['', WHOLE]) {
        writeFileSync(file, Buffer.concat([Buffer.from(before), cut.subarray(0, bytes)]));
        const opened = await openLineFile(file, BEGINNINGS, (line) => lines.push(line));
        await opened.append(WHOLE);
        await opened.close();
        expect([bytes, readFileSync(file, 'utf8')]).toEqual([bytes, `${before}${WHOLE}`]);
      }
      expect(lines).toEqual([WHOLE.trimEnd()]);
    }
  });

  it.each([
    ['begins otherwise', `${WHOLE}{"other`, 'line 2: expected a line that begins with {"message_id":'],
    ['comes after a line that does not belong', 'other\n{"mess', 'line 1: not ours'],
  ])('stays as it is where its last line %s', async (_, content, message) => {
    writeFileSync(inFolder('notes'), content);
    const opening = openLineFile(inFolder('notes'), BEGINNINGS, (line) => {
      if (!line.startsWith('{')) throw new Error('not ours');
    });
    await expect(opening).rejects.toThrow(`${inFolder('notes')}: ${message}`);
    expect(readFileSync(inFolder('notes'), 'utf8')).toBe(content);
  });
});
