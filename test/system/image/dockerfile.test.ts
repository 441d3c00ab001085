import { readdirSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { IMAGE_STAGES } from '../../../infra/image/stageImage.ts';
import { REPOSITORY } from '../../helpers/command.ts';
import { copySources, inOwnProcess, stageFor, stagingCode } from './staging.ts';

const sourceOf = (file: string) => readFileSync(join(REPOSITORY, 'infra', 'image', file), 'utf8');

describe('the Dockerfile', () => {
  const stages = sourceOf('Dockerfile')
    .split(/^FROM /m)
    .slice(1);
  const target = (name: string) => stages.find((stage) => stage.split('\n')[0]?.endsWith(` AS ${name}`)) ?? '';

  it.each(IMAGE_STAGES)('runs nothing for %s, so that an arm64 image is built on x86_64 without emulation', (stage) => {
    expect(target(stage)).toContain('COPY');
    expect(target(stage)).not.toMatch(/^RUN/m);
  });

  it.each(['lambda', 'worker'])("turns ONNX Runtime's telemetry off in %s, and so in what is built on it", (stage) => {
    expect(target(stage)).toMatch(/^(ENV| +) *ORT_DISABLE_TELEMETRY=1\b/m);
  });

  it('takes bases that a build may replace', () => {
    for (const stage of stages) expect(stage).toMatch(/^(\$\{[A-Z]+_BASE\}|(lambda|worker)(-base)?) AS /);
  });

  it('leaves it to the host which GPUs a container sees', () => {
    expect(sourceOf('Dockerfile')).not.toContain('NVIDIA_VISIBLE_DEVICES');
  });
});

describe("the list of CUDA's packages", () => {
  it.each(['cuda.txt', 'cufft.txt'])('has each with its version, its hash and no address: %s', (file) => {
    const lines = sourceOf(file)
      .trimEnd()
      .split('\n')
      .filter((line) => !line.startsWith('#'));

    expect(lines).not.toEqual([]);
    for (const line of lines) expect(line).toMatch(/^[a-z0-9-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}$/);
  });

  it('lies beside the Dockerfile where a GPU is built for, and not else', () => {
    const pins = (['lambda', 'lambda-gpu', 'worker', 'worker-gpu'] as const).map((stage) =>
      readdirSync(stageFor({ modelsDirectory: undefined, stage })).filter((file) => file.endsWith('.txt')),
    );

    expect(pins).toEqual([[], ['cuda.txt', 'cufft.txt'], [], ['cuda.txt', 'cufft.txt']]);
  });

  it('is refused for an ONNX Runtime of another version when an image is staged, because the two would not load together', async () => {
    const root = await copySources([
      'esbuild',
      'zod',
      'aws-cdk-lib',
      'constructs',
      'onnxruntime-node',
      'onnxruntime-common',
    ]);
    const pins = join(root, 'infra', 'image', 'cuda.txt');
    const changed = (await readFile(pins, 'utf8')).replace(/^onnxruntime-gpu==\S+/m, 'onnxruntime-gpu==1.29.0');
    await writeFile(pins, changed);

    const module = join(root, 'infra', 'image', 'stageImage.ts');
    const staging = stagingCode({ stage: 'lambda-gpu' });
    const said = await inOwnProcess(module, `try { ${staging} } catch (error) { console.log(error.message) }`, root);

    expect(said).toBe(
      'onnxruntime-node: expected version 1.29.0, whose part for CUDA is pinned, got 1.30.0; run npm install onnxruntime-node@1.29.0 --onnxruntime-node-install=skip',
    );
  });
});
