import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { App } from 'aws-cdk-lib';
import type { ImageBuild } from '../../../infra/index.ts';
import { docPage, REPOSITORY } from '../../helpers/command.ts';
import { createApp, createScoring, createStack } from '../../helpers/stacks.ts';

const DIGEST = `sha256:${'0'.repeat(63)}`;

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

function built(imageBuild: ImageBuild) {
  const app = createApp();
  createScoring({ image: undefined, models: join(REPOSITORY, 'models'), imageBuild }, createStack(app));
  return imageOf(app);
}

describe('what an image is built from', () => {
  it('is left to the Dockerfile where nothing is said', () => {
    expect(built({}).source.dockerBuildArgs).toBeUndefined();
  });

  it('is not put together where the CDK bundles nothing, as for `cdk list`', () => {
    const app = createApp({ context: { 'aws:cdk:bundling-stacks': [] } });
    createScoring({ image: undefined, models: join(REPOSITORY, 'models') }, createStack(app));
    const { directory } = imageOf(app).source;

    expect(readdirSync(join(app.outdir, directory))).toContain('Dockerfile');
    expect(readdirSync(join(app.outdir, directory))).not.toContain('models');
  });

  it('is the given base, and another image where another base is given', () => {
    const [one, other] = ['1', '2'].map((end) => built({ buildArgs: { LAMBDA_BASE: `base@${DIGEST}${end}` } }));

    expect(one?.source.dockerBuildArgs).toEqual({ LAMBDA_BASE: `base@${DIGEST}1` });
    expect(one?.tag).not.toBe(other?.tag);
  });

  it('is what the Dockerfile takes: docs/construct.md lists no other argument', () => {
    const dockerfile = readFileSync(join(REPOSITORY, 'infra', 'image', 'Dockerfile'), 'utf8');
    const listed = [...docPage('construct.md').matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name = '']) => name);
    expect(listed.length).toBeGreaterThan(4);
    for (const name of listed) expect(dockerfile).toMatch(new RegExp(`^ARG ${name}\\b`, 'm'));
  });
});
