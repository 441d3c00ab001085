import { rmSync } from 'node:fs';
import type { IRepository } from 'aws-cdk-lib/aws-ecr';
import { DockerImageAsset, Platform } from 'aws-cdk-lib/aws-ecr-assets';
import type { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Annotations, type AssetStaging, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { brokenOf, known, type Problem, refuse, refusing, ValidationError } from '../common/problems.ts';
import { checkModelsFolder, type Room, weightProblems } from './modelsFolder.ts';
import { IMAGE_STAGES, type ImageStage, runtimeProblem, stageImage, UNSTAGED } from './stageImage.ts';

/** Container image in ECR. */
export interface ContainerImage {
  readonly repository: IRepository;
  /** Tag, or digest that begins with `sha256:`. */
  readonly tagOrDigest: string;
}

/** Platform of an image: host, GPU and architecture. */
export interface ImageTarget {
  readonly stage: ImageStage;
  readonly architecture: Architecture;
  /** Number of devices of the host. @default one with a GPU, else none */
  readonly devices?: number;
  /** Memory and disk for models. @default unknown: model sizes are not checked */
  readonly room?: Room;
}

export const ARCHITECTURES = ['arm64', 'x86_64'] as const;

interface ImageSource {
  readonly image?: ContainerImage;
  readonly models: { readonly folder?: string; readonly s3?: unknown; readonly efs?: unknown };
  readonly defaultModel?: string;
  readonly imageBuild?: ImageBuild;
  readonly tuning?: { readonly preload?: boolean };
}

/**
 * Returns the given image, or one that `cdk deploy` builds, with the runtime, and with the models if they are a folder.
 *
 * @throws ValidationError if the folder is not a model repository, or if models are missing or given twice
 */
export function createImage(
  scope: Construct,
  { image, models: { folder, s3, efs }, defaultModel, imageBuild = {}, tuning = {} }: ImageSource,
  target: ImageTarget,
): ContainerImage {
  if ([image, folder, s3, efs].every((given) => given === undefined)) {
    throw new ValidationError('models: expected models or an image with models, got neither; give one of them');
  }
  if (image !== undefined && folder !== undefined) {
    throw new ValidationError('models: expected a folder of models or an image, got both; give one of them');
  }
  if (image !== undefined) return image;
  if (folder !== undefined) {
    const devices = target.devices ?? (target.stage.endsWith('-gpu') ? 1 : 0);
    refusing(() => checkModelsFolder(folder, known(defaultModel), devices));
    refuse(weightProblems(folder, { ...target.room, stage: target.stage, preload: tuning.preload }));
  }
  return buildImage(scope, folder, imageBuild, target);
}

function buildImage(
  scope: Construct,
  modelsDirectory: string | undefined,
  imageBuild: ImageBuild,
  { stage, architecture }: ImageTarget,
): ContainerImage {
  const name = nameOf(architecture);
  // As in the CDK's own bundling, `cdk list`, `cdk destroy` and tests with `aws:cdk:bundling-stacks: []` stage nothing.
  const isNeeded = Stack.of(scope).bundlingRequired;
  const missing = isNeeded ? runtimeProblem({ architecture: name, stage }) : undefined;
  // An annotated error fails `cdk synth` and `cdk deploy`, but not a test of the template, which needs no image.
  if (missing !== undefined) Annotations.of(scope).addError(missing);
  const isStaged = isNeeded && missing === undefined;
  const inform = (message: string): void => Annotations.of(scope).addInfoV2('batchscore:leftOut', `models: ${message}`);
  const directory = isStaged
    ? refusing(() => stageImage({ modelsDirectory, architecture: name, stage, inform }))
    : UNSTAGED;
  const platform = Platform.custom(architecture.dockerPlatform);
  const asset = new DockerImageAsset(scope, 'Image', {
    directory,
    target: stage,
    platform,
    buildArgs: buildArguments(imageBuild, stage),
  });
  // The CDK has copied the folder to its output, unless an option makes it build from the original.
  const { absoluteStagedPath } = asset.node.findChild('Staging') as AssetStaging;
  if (isStaged && absoluteStagedPath !== directory) rmSync(directory, { recursive: true });
  return { repository: asset.repository, tagOrDigest: asset.imageTag };
}

function nameOf({ name }: Architecture): (typeof ARCHITECTURES)[number] {
  const known = ARCHITECTURES.find((architecture) => architecture === name);
  if (known !== undefined) return known;
  throw new ValidationError(`architecture: expected one of ${ARCHITECTURES.join(', ')}, got ${name}; take one of them`);
}

/** Sources of an image besides the models. */
export interface ImageBuild {
  /**
   * Base of the host's image, with Node 24, and with Lambda's runtime client for a function. Name it by its digest: the
   * CDK does not notice if a tag moves to a newer image.
   * @default 'public.ecr.aws/lambda/nodejs:24' for a function, 'public.ecr.aws/docker/library/node:24-slim' for a
   * worker
   */
  readonly baseImage?: string;
  /**
   * With a GPU: image with Python and pip, to install CUDA from the package index. Only the CUDA
   * files are copied to the final image.
   * @default 'public.ecr.aws/docker/library/python:3.13-slim'
   */
  readonly pythonImage?: string;
  /** With a GPU: URL of the package index for pip. @default pip's own, PyPI */
  readonly pipIndexUrl?: string;
  /** With a GPU: true if the image contains cuFFT, for models with the operators `Rfft` or `Irfft`. @default false */
  readonly cufft?: boolean;
}

const KEYS = ['baseImage', 'pythonImage', 'pipIndexUrl', 'cufft'] as const;

/**
 * Returns problems with invalid references and addresses, and with options that have no effect.
 * @param isGiven true if no image is built
 */
export function imageBuildProblems(build: ImageBuild, isGiven: boolean, stage: ImageStage): Problem[] {
  const { baseImage, pythonImage, pipIndexUrl } = build;
  const hasGpu = IMAGE_STAGES[stage].hasGpu;
  const ignored = KEYS.filter((key) => build[key] !== undefined && (isGiven || (!hasGpu && key !== 'baseImage')));
  const where = isGiven
    ? 'for an image that is built from models, got it with one of your own'
    : 'with a GPU, got none';
  const url = known(pipIndexUrl) === undefined ? undefined : URL.parse(pipIndexUrl ?? '');
  return [
    ...ignored.map((key) => `imageBuild.${key}: expected only ${where}; leave it out`),
    ...Object.entries({ baseImage, pythonImage }).map(([key, reference]) =>
      known(reference) === undefined || REFERENCE.test(reference ?? '')
        ? undefined
        : `imageBuild.${key}: expected a reference to an image, such as public.ecr.aws/lambda/nodejs:24@sha256: and the 64 digits ` +
          `of a digest, got '${reference}'; copy it from the registry`,
    ),
    ...brokenOf([
      [
        url === null || (url !== undefined && !['https:', 'http:'].includes(url.protocol)),
        `imageBuild.pipIndexUrl: expected an address that begins with https:// or http://, got '${pipIndexUrl}'; correct it`,
      ],
      [
        // Build arguments are stored in plain text.
        Boolean(url?.username || url?.password),
        'imageBuild.pipIndexUrl: expected no user or password, which cdk.out would hold, got one; take an index that needs none',
      ],
    ]),
  ];
}

/** Returns build arguments by the Dockerfile's names. For those left out, the Dockerfile's defaults apply. */
function buildArguments(
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

/**
 * Image reference. A digest alone is refused, because Docker reads it as a name with a tag.
 * @see https://pkg.go.dev/github.com/distribution/reference
 */
const REFERENCE = new RegExp(
  `^(?!sha256:)(?:${HOST}/)?${PART}(?:/${PART})*(?::\\w[\\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$`,
);

/**
 * Instance families with a GPU that the image's CUDA kernels support, by compute capability. The image has no PTX, so a
 * driver cannot compile kernels for other GPUs.
 *
 * @see https://developer.nvidia.com/cuda-gpus
 */
const FAMILIES = {
  sm_75: ['g4dn'],
  sm_80: ['p4d', 'p4de'],
  sm_86: ['g5'],
  sm_89: ['g6', 'g6e', 'g6f', 'gr6', 'gr6f'],
  sm_90: ['p5', 'p5e', 'p5en'],
  sm_120: ['g7e'],
};

/** Returns a problem if an instance type has no GPU, or one that ONNX Runtime cannot use. */
export function withoutKernels(instanceType: string): Problem {
  const families = Object.values(FAMILIES).flat().toSorted();
  if (known(instanceType) === undefined || families.some((family) => instanceType.startsWith(`${family}.`)))
    return undefined;
  return (
    `instanceTypes: expected types whose GPU the CUDA kernels of ONNX Runtime run on (${listed(Object.keys(FAMILIES))}, x86_64), ` +
    `which those of ${listed(families)} have, got ${instanceType}; take one of those`
  );
}

function listed(names: readonly string[]): string {
  return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}
