import { mkdtempSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { loadTransform } from '../../../lambda/onnx/loadTransform.ts';

const folder = mkdtempSync(join(tmpdir(), 'batchscore-transform-'));
afterAll(() => rm(folder, { recursive: true }));

async function written(name: string, code: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, code);
  return path;
}

const BODY = { text: 'a' };

function refuse(warning: string): never {
  throw new Error(`expected no warning, got ${warning}`);
}

describe('a transform module', () => {
  it.each([
    ['plain.mjs', 'export const decode = (body) => [body.text];'],
    ['typed.ts', 'export const decode = (body: { text: string }): string[] => [body.text];'],
    ['later.mjs', 'export const decode = async (body) => [body.text];'],
  ])('may be JavaScript or TypeScript, sync or async: %s', async (name, code) => {
    const { decode, encode } = await loadTransform(await written(name, code), refuse);
    expect(await decode?.(BODY)).toEqual(['a']);
    expect(encode).toBeUndefined();
  });

  it('that never settles is an error after its time limit', async () => {
    const code = 'export const decode = () => new Promise(() => {}); export const encode = decode;';
    const { decode, encode } = await loadTransform(await written('hangs.mjs', code), refuse, 20);
    await expect(decode?.(BODY)).rejects.toThrow("expected the transform's decode to settle within 20 ms");
    await expect(encode?.({})).rejects.toThrow("expected the transform's encode to settle within 20 ms");
  });

  it.each([
    ['all of it', 'then'],
    ['a part', '[then]'],
  ])(
    'may return what is no promise and has a then, as query builders do, within its limit: %s',
    async (what, given) => {
      const code = `export const decode = () => (${given.replace('then', "{ then: (resolve) => resolve('a') }")});
      export const encode = () => (${given.replace('then', '{ then() {} }')});`;
      const { decode, encode } = await loadTransform(await written(`${what}.mjs`, code), refuse, 20);
      expect([await decode?.(BODY)].flat()).toEqual(['a']);
      const late = encode?.({});
      expect(late).toBeInstanceOf(Promise);
      await expect(late).rejects.toThrow("expected the transform's encode to settle within 20 ms");
    },
  );

  it.each([
    ['nothing.mjs', 'export const other = 1;', 'got none of them'],
    ['number.mjs', 'export const decode = 1;', 'got number as decode'],
    [
      'both.mjs',
      'export const decode = () => []; export const decodeBatch = decode;',
      'got both decode and decodeBatch',
    ],
    ['broken.mjs', 'export const decode = ;', 'cannot be imported'],
  ])('is refused with its path: %s', async (name, code, message) => {
    const path = await written(name, code);
    await expect(loadTransform(path, refuse)).rejects.toThrow(message);
    await expect(loadTransform(path, refuse)).rejects.toThrow(path);
  });
});
