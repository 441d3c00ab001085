import { IMAGE_STAGES, type ImageStage } from '../../image/imageStages.ts';
import type { Problem } from '../base/refuse.ts';

/** What an image is built from besides the models. */
export interface ImageBuild {
  /**
   * The image that the host's is built on: Node 24, for a function with Lambda's runtime client. Name it by its digest: a
   * tag that moves to a newer image is no change to the CDK, which builds nothing then.
   * @default 'public.ecr.aws/lambda/nodejs:24' for a function, 'public.ecr.aws/docker/library/node:24-slim' for a worker
   */
  readonly baseImage?: string;
  /**
   * With a GPU: an image with Python and pip, which takes CUDA from the package index. Nothing of it is kept.
   * @default 'public.ecr.aws/docker/library/python:3.13-slim'
   */
  readonly pythonImage?: string;
  /** With a GPU: the package index, as pip takes it. @default pip's own, PyPI */
  readonly pipIndexUrl?: string;
  /** With a GPU: whether cuFFT is in the image, for models with the operators `Rfft` or `Irfft`. @default false */
  readonly cufft?: boolean;
}

const KEYS = ['baseImage', 'pythonImage', 'pipIndexUrl', 'cufft'] as const;
const KEYS_WITH_GPU = KEYS.filter((key) => key !== 'baseImage');

/** What the settings are for: an image that is built, or one that is given. */
interface Built {
  readonly isGiven: boolean;
  readonly stage: ImageStage;
}

/** What is no reference or address, and what would have no effect. */
export function imageBuildProblems(build: ImageBuild, { isGiven, stage }: Built): Problem[] {
  const ignored = isGiven ? KEYS : IMAGE_STAGES[stage].hasGpu ? [] : KEYS_WITH_GPU;
  const where = isGiven
    ? 'for an image that is built from models, got it with one of your own'
    : 'with a GPU, got none';
  return [
    ...ignored.filter((key) => build[key] !== undefined).map((key) => `${key}: expected only ${where}; leave it out`),
    referenceProblem('baseImage', build.baseImage),
    referenceProblem('pythonImage', build.pythonImage),
    indexProblem(build.pipIndexUrl),
  ];
}

/** Names of the Dockerfile. One that is not given keeps the Dockerfile's own default. */
export function buildArguments(
  { baseImage, pythonImage, pipIndexUrl, cufft }: ImageBuild,
  stage: ImageStage,
): Record<string, string> {
  return {
    ...(baseImage !== undefined && { [IMAGE_STAGES[stage].baseArgument]: baseImage }),
    ...(pythonImage !== undefined && { PYTHON_BASE: pythonImage }),
    ...(pipIndexUrl !== undefined && { PIP_INDEX_URL: pipIndexUrl }),
    ...(cufft === true && { CUFFT: 'yes' }),
  };
}

const HOST = '[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]+)?';
const PART = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';

/** A digest alone would be read as a name with a tag. @see https://pkg.go.dev/github.com/distribution/reference */
const REFERENCE = new RegExp(
  `^(?!sha256:)(?:${HOST}/)?${PART}(?:/${PART})*(?::\\w[\\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$`,
);

function referenceProblem(key: string, reference: string | undefined): Problem {
  if (reference === undefined || REFERENCE.test(reference)) return undefined;
  return (
    `${key}: expected a reference to an image, such as public.ecr.aws/lambda/nodejs:24@sha256: and the 64 digits of a ` +
    `digest, got '${reference}'; copy it from the registry`
  );
}

/** A build argument is stored in the clear. */
function indexProblem(address: string | undefined): Problem {
  if (address === undefined) return undefined;
  const url = URL.parse(address);
  if (url === null || !['https:', 'http:'].includes(url.protocol)) {
    return `pipIndexUrl: expected an address that begins with https:// or http://, got '${address}'; correct it`;
  }
  if (url.username === '' && url.password === '') return undefined;
  return 'pipIndexUrl: expected no user or password, which cdk.out would hold, got one; take an index that needs none';
}
