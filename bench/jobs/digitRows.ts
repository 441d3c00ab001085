import { readFileSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';

const SAMPLES = new URL('../../models/digits/held-out.jsonl', import.meta.url);
const MIB = 1024 * 1024;

/**
 * Requests for digits, one a line, until the file is as large as it should be.
 *
 * @param pad makes each line longer: fewer rows take less time, and memory goes by bytes. @default none
 */
export async function writeRows(file: string, mib: number, pad?: string): Promise<void> {
  const samples = readFileSync(SAMPLES, 'utf8').trimEnd().split('\n');
  const lines = samples.map((line, index) => {
    const { pixels } = JSON.parse(line) as { readonly pixels: readonly number[] };
    const data = pixels.map((pixel) => pixel + 0.125 * (index % 8));
    const inputs = [{ name: 'image', datatype: 'FP32', shape: [1, 64], data }];
    return `${JSON.stringify({ id: `digit-${index}`, inputs, ...(pad && { parameters: { pad } }) })}\n`;
  });
  const block = lines.join('');
  const handle = await open(file, 'w');
  try {
    for (let bytes = 0; bytes <= mib * MIB; bytes += block.length) await writeFile(handle, block);
  } finally {
    await handle.close();
  }
}
