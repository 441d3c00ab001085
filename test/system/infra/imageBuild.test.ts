import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { App } from 'aws-cdk-lib';
import { type ComputeForm, type ImageBuild, lambdaCompute, lambdaGpuCompute } from '../../../infra/index.ts';
import { REPOSITORY } from '../../helpers/command.ts';
import { createApp, createScoring, createStack, refusalOf } from '../../helpers/stacks.ts';

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`;

interface Source {
  readonly directory: string;
  readonly dockerBuildArgs?: Readonly<Record<string, string>>;
}

/** How `cdk deploy` builds the image, and the image's tag. */
function imageOf(app: App): { readonly source: Source; readonly tag: string } {
  app.synth();
  const { dockerImages } = JSON.parse(readFileSync(join(app.outdir, 'Test.assets.json'), 'utf8'));
  const [[tag, image]] = Object.entries(dockerImages) as [[string, { source: Source }]];
  return { source: image.source, tag };
}

function built(imageBuild: ImageBuild, compute: ComputeForm = lambdaCompute()) {
  const app = createApp();
  createScoring({ image: undefined, models: join(REPOSITORY, 'models'), compute, imageBuild }, createStack(app));
  return imageOf(app);
}

/** What is said of settings for an image that is built. */
const refused = (imageBuild: ImageBuild, compute = lambdaCompute()) =>
  refusalOf({ image: undefined, models: 'models', compute, imageBuild });

describe('what an image is built from', () => {
  it('is left to the Dockerfile where nothing is said', () => {
    expect(built({}).source.dockerBuildArgs).toEqual({});
  });

  it('is not put together where the CDK bundles nothing, as for `cdk list`', () => {
    const app = createApp({ context: { 'aws:cdk:bundling-stacks': [] } });
    createScoring({ image: undefined, models: join(REPOSITORY, 'models') }, createStack(app));
    const { directory } = imageOf(app).source;

    expect(readdirSync(join(app.outdir, directory))).toContain('Dockerfile');
    expect(readdirSync(join(app.outdir, directory))).not.toContain('models');
  });

  it('is the given base, and another image where another base is given', () => {
    const [one, other] = ['1', '2'].map((end) => built({ baseImage: `base@${DIGEST.slice(0, -1)}${end}` }));

    expect(one?.source.dockerBuildArgs).toEqual({ LAMBDA_BASE: `base@${DIGEST.slice(0, -1)}1` });
    expect(one?.tag).not.toBe(other?.tag);
  });

  it('is taken from a mirror for a GPU, with cuFFT if so told', () => {
    const imageBuild = { pythonImage: 'mirror/python:3.13', pipIndexUrl: 'https://mirror.example/simple', cufft: true };

    expect(built(imageBuild, lambdaGpuCompute()).source.dockerBuildArgs).toEqual({
      PYTHON_BASE: 'mirror/python:3.13',
      PIP_INDEX_URL: 'https://mirror.example/simple',
      CUFFT: 'yes',
    });
    expect(built({ cufft: false }, lambdaGpuCompute()).source.dockerBuildArgs).toEqual({});
  });
});

describe('a base image', () => {
  it.each([
    'node',
    'localhost:5000/lambda/nodejs',
    `public.ecr.aws/lambda/nodejs@${DIGEST}`,
    `123456789012.dkr.ecr.eu-central-1.amazonaws.com/team_a/base__x/node-js:24.2026-11@${DIGEST}`,
  ])('may be %s', (baseImage) => {
    expect(refusalOf({ image: undefined, models: 'models', imageBuild: { baseImage }, batchSize: 0 })).toMatch(
      /^Test\/Scoring: batchSize: expected [^;]*; [^;]*$/,
    );
  });

  it.each([
    ['empty', ''],
    ['a digest cut short', `public.ecr.aws/lambda/nodejs:24@${DIGEST.slice(0, -1)}`],
    ['a second line', 'public.ecr.aws/lambda/nodejs:24\nRUN true'],
  ])('is refused that is %s', (_, baseImage) => {
    expect(refused({ baseImage })).toBe(
      `Test/Scoring: imageBuild.baseImage: expected a reference to an image, such as public.ecr.aws/lambda/nodejs:24@sha256: and the 64 digits of a digest, got '${baseImage}'; copy it from the registry`,
    );
  });
});

describe("a GPU's image", () => {
  it('is refused with a base for Python that is no image', () => {
    expect(refused({ pythonImage: 'Python' }, lambdaGpuCompute())).toMatch(
      /^Test\/Scoring: imageBuild\.pythonImage: expected a reference to an/,
    );
  });

  it('is refused with an index that is no address', () => {
    expect(refused({ pipIndexUrl: 'mirror.example/simple' }, lambdaGpuCompute())).toBe(
      "Test/Scoring: imageBuild.pipIndexUrl: expected an address that begins with https:// or http://, got 'mirror.example/simple'; correct it",
    );
  });

  it('is refused with a password for its index, which is not repeated', () => {
    expect(refused({ pipIndexUrl: 'https://me:secret@mirror.example' }, lambdaGpuCompute())).toBe(
      'Test/Scoring: imageBuild.pipIndexUrl: expected no user or password, which cdk.out would hold, got one; take an index that needs none',
    );
  });
});

describe('what would have no effect is refused', () => {
  it.each([{ pythonImage: 'python' }, { pipIndexUrl: 'https://mirror.example' }, { cufft: true }])(
    'without a GPU: %j',
    (imageBuild) => {
      const [key] = Object.keys(imageBuild);
      expect(refused(imageBuild)).toBe(
        `Test/Scoring: imageBuild.${key}: expected only with a GPU, got none; leave it out`,
      );
    },
  );

  it('with an image of your own', () => {
    expect(refusalOf({ imageBuild: { baseImage: 'node:24' } })).toBe(
      'Test/Scoring: imageBuild.baseImage: expected only for an image that is built from models, got it with one of your own; leave it out',
    );
  });
});
