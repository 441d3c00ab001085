import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { batchscore } from '../../../helpers/batchscore.ts';
import { useFolder } from '../../../helpers/folders.ts';
import { identityModel } from '../../../helpers/onnxModels.ts';
import { putModel } from '../models.ts';

const inFolder = useFolder();

const captured = (request: object, answer: object) => ({
  ...request,
  parameters: { captured: { at: '2026-11-23T10:15:30.000Z', answer: { message_id: 'm', ...answer } } },
});
const tensor = (name: string, data: unknown, datatype = 'FP32', shape = [1, 3]) => ({ name, datatype, shape, data });
const LINES = [
  captured({ id: 'a', inputs: [tensor('x', [1, 2, 'NaN'])] }, { outputs: [tensor('y', [1, 2, 'NaN'])] }),
  captured({ instances: [[-1, 4, null]] }, { predictions: [{ y: [-1, 4, 0], label: 'up' }] }),
  captured(
    {
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 3] }],
      raw_input_contents: [Buffer.from(Float32Array.of(0, 6, 0).buffer).toString('base64')],
    },
    { outputs: [tensor('label', ['down'], 'BYTES', [1]), tensor('class', [7], 'INT64', [1])] },
  ),
  captured({ text: 'hello', at: { hour: 8 } }, { result: [{ label: 'up' }, { label: '' }] }),
];

async function fileOf(lines: readonly unknown[]): Promise<{ readonly path: string; readonly model: string }> {
  const path = join(inFolder(), 'captured.jsonl.gz');
  const texts = lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`);
  // Of several objects, one behind the other.
  writeFileSync(path, Buffer.concat(texts.map((text) => gzipSync(text))));
  const model = await putModel(inFolder(), 'same', identityModel());
  return { path, model };
}

describe('batchscore inspect --captured', () => {
  it('names a file that was cut short', async () => {
    const { path, model } = await fileOf(LINES);
    writeFileSync(path, readFileSync(path).subarray(0, 100));
    const { code, stderr } = await batchscore(['inspect', model, '--captured', path]);

    expect(code).toBe(1);
    expect(stderr).toContain(`${path}: expected a gzipped file, got: unexpected end of file; was it cut short?`);
  });

  it('leaves infinite values out of ranges and means', async () => {
    const { path, model } = await fileOf([{ inputs: [tensor('x', [1, 3, 'Infinity'])] }]);
    const { stdout } = await batchscore(['inspect', model, '--captured', path, '--json']);

    expect(JSON.parse(stdout).captured.inputs[0]).toMatchObject({ values: 3, missing: 0, min: 1, mean: 2, max: 3 });
  });

  it('says per input and output what came, in every form of a request, beside samples.jsonl', async () => {
    const { path, model } = await fileOf(LINES);
    writeFileSync(join(model, 'samples.jsonl'), '{"instances":[[0.5,1.5,2.5]]}\n');
    const { code, stdout } = await batchscore(['inspect', model, '--captured', path, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      captured: {
        requests: 4,
        inputs: [
          { name: 'x', values: 7, missing: 3, min: -1, mean: 12 / 7, max: 6, categories: expect.any(Array) },
          { name: 'text', values: 1, missing: 3, categories: [['hello', 1]] },
          { name: 'at.hour', values: 1, missing: 3, min: 8, mean: 8, max: 8, categories: [['8', 1]] },
        ],
        outputs: [
          { name: 'y', values: 5, missing: 3, min: -1, mean: 6 / 5, max: 4, categories: expect.any(Array) },
          {
            name: 'label',
            values: 2,
            missing: 2,
            categories: [
              ['up', 1],
              ['down', 1],
            ],
          },
          { name: 'class', values: 1, missing: 3, min: 7, mean: 7, max: 7, categories: [['7', 1]] },
          { name: 'result.label', values: 1, missing: 4, categories: [['up', 1]] },
        ],
      },
      samples: {
        requests: 1,
        inputs: [{ name: 'x', values: 3, missing: 0, min: 0.5, mean: 1.5, max: 2.5 }],
        outputs: [],
      },
    });
    const text = (await batchscore(['inspect', model, '--captured', path])).stdout;
    expect(text).toContain('4 requests of ');
    expect(text).toMatch(/^ {2}x +captured +7 +3 +-1 +1\.714 +6 /m);
    expect(text).toMatch(/^ {2}x +samples\.jsonl +3 +0 +0\.5 +1\.5 +2\.5$/m);
    expect(text).toMatch(/^ {2}label +captured +2 +2 +up 1×, down 1×$/m);
  });

  it('refuses answers of several models', async () => {
    const of = (model_name: string) => captured({ instances: [[1, 2, 3]] }, { model_name, predictions: [[1, 2, 3]] });
    const { path, model } = await fileOf([of('a'), of('a'), of('b')]);
    const { code, stderr } = await batchscore(['inspect', model, '--captured', path]);

    expect(code).toBe(1);
    expect(stderr).toContain(`${path}:3: expected answers of one model, got one of 'b' after 'a'; give a file of each`);
  });

  it('names the line that is no request, and a file that is not gzipped', async () => {
    const { path, model } = await fileOf([LINES[0], '{"no":']);
    const { code, stderr } = await batchscore(['inspect', model, '--captured', path]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/captured\.jsonl\.gz:2: expected a request as JSON/)]);
    writeFileSync(path, 'plain');
    expect((await batchscore(['inspect', model, '--captured', path])).code).toBe(1);
  });

  it('takes what was captured as samples.jsonl, and score takes it as it is', async () => {
    const { path, model } = await fileOf(LINES.slice(0, 3));
    writeFileSync(join(model, 'samples.jsonl'), JSON.stringify(LINES[2]));
    const opened = await batchscore(['inspect', model, '--json']);
    expect(JSON.parse(opened.stdout)).toMatchObject({
      isMadeUp: false,
      samples: [{ json: { inputs: [{ data: [0, 6, 0] }] } }],
    });
    const out = join(inFolder(), 'out.jsonl');
    const scored = await batchscore(['score', model, path, '--out', out, '--json']);
    expect(JSON.parse(scored.stdout)).toMatchObject({ lines: 3, scored: 2, errors: { INVALID_DATA: 1 } });
    expect(readFileSync(out, 'utf8').split('\n')[0]).toContain('"data":[1,2,"NaN"]');
  });
});
