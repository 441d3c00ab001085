import { rmSync } from 'node:fs';
import type { IRepository } from 'aws-cdk-lib/aws-ecr';
import { DockerImageAsset, type DockerImageAssetOptions, Platform } from 'aws-cdk-lib/aws-ecr-assets';
import type { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Annotations, type AssetStaging, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { exceeds, known, oneOf, type Problem, refuse, refusing, unknownAtSynth } from '../common/problems.ts';
import { checkModelsFolder, type Room, weightProblems } from './modelsFolder.ts';
import { hasGpu, type ImageOptions, type ImageStage, runtimeProblem, stageImage, UNSTAGED } from './stageImage.ts';

/** Container image in ECR. */
export interface ContainerImage {
  /** Repository of the image. */
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

/** Options of the image's build that the construct does not set itself. */
export type ImageBuild = Omit<DockerImageAssetOptions, 'file' | 'target' | 'platform'>;

interface ImageSource {
  readonly props: {
    readonly image?: ContainerImage;
    readonly defaultModel?: string;
    readonly imageBuild?: ImageBuild;
    readonly tuning?: { readonly preload?: boolean };
  };
  readonly models: { readonly folder?: string; readonly s3?: unknown; readonly efs?: unknown };
  readonly compute: { readonly imageTarget: ImageTarget };
  /** Functions that score jobs with the same models. */
  readonly jobs: { readonly memoryMb: number } | undefined;
}

/**
 * Returns the given image, or one that `cdk deploy` builds, with the runtime, and with the models if they are a folder.
 *
 * @throws ValidationError if the folder is not a model repository, or if models are missing or given twice
 */
export function createImage(scope: Construct, { props, models, compute, jobs }: ImageSource): ContainerImage {
  const { image, defaultModel, imageBuild, tuning = {} } = props;
  const { folder, s3, efs } = models;
  const { stage, architecture, room, devices = hasGpu(stage) ? 1 : 0 } = compute.imageTarget;
  refuse([
    [image, folder, s3, efs].every((given) => given === undefined) &&
      'models: expected models or an image with models, got neither; give one of them',
    image !== undefined &&
      folder !== undefined &&
      'models: expected a folder of models or an image, got both; give one of them',
  ]);
  if (image !== undefined) return image;
  if (folder !== undefined) {
    refusing(() => checkModelsFolder(folder, known(defaultModel), devices));
    refuse(weightProblems(folder, { ...room, jobsMemoryMb: jobs?.memoryMb, stage, preload: tuning.preload }));
  }
  const { name } = architecture;
  refuse([unknownAtSynth('architecture', name), oneOf('architecture', name, ['arm64', 'x86_64'])]);
  return buildImage(scope, imageBuild, {
    stage,
    architecture: name === 'arm64' ? 'arm64' : 'x86_64',
    modelsDirectory: folder,
    inform: (message) => Annotations.of(scope).addInfoV2('batchscore:leftOut', `models: ${message}`),
  });
}

function buildImage(scope: Construct, imageBuild: ImageBuild | undefined, options: ImageOptions): ContainerImage {
  // As in the CDK's own bundling, `cdk list`, `cdk destroy` and tests with `aws:cdk:bundling-stacks: []` stage nothing.
  const isNeeded = Stack.of(scope).bundlingRequired;
  const missing = isNeeded ? runtimeProblem(options) : undefined;
  // An annotated error fails `cdk synth` and `cdk deploy`, but not a test of the template, which needs no image.
  if (missing !== undefined) Annotations.of(scope).addError(missing);
  const isStaged = isNeeded && missing === undefined;
  const directory = isStaged ? refusing(() => stageImage(options)) : UNSTAGED;
  const platform = options.architecture === 'arm64' ? Platform.LINUX_ARM64 : Platform.LINUX_AMD64;
  const asset = new DockerImageAsset(scope, 'Image', { ...imageBuild, directory, target: options.stage, platform });
  // The CDK has copied the folder to its output, unless an option makes it build from the original.
  const { absoluteStagedPath } = asset.node.findChild('Staging') as AssetStaging;
  if (isStaged && absoluteStagedPath !== directory) rmSync(directory, { recursive: true });
  return { repository: asset.repository, tagOrDigest: asset.imageTag };
}

/**
 * GiB of a GPU, by the instance families with one that the image's CUDA kernels support: compute capabilities 7.5, 8.0,
 * 8.6, 8.9, 9.0 and 12.0. The image has no PTX, so a driver cannot compile kernels for other GPUs.
 *
 * @see https://developer.nvidia.com/cuda-gpus
 */
const G_GIB = { g4dn: 16, g5: 24, g6: 24, g6e: 48, g6f: 12, g7e: 96, gr6: 24, gr6f: 12 };
const P_GIB = { p4d: 40, p4de: 80, p5: 80, p5e: 141, p5en: 141 };
const GPU_GIB: Readonly<Record<string, number>> = { ...G_GIB, ...P_GIB };

/**
 * Returns problems with instance types that have no GPU, or one that ONNX Runtime cannot use, or that all are too small.
 *
 * @param leastGiB least memory of a GPU
 * @param leastVcpus vCPUs of a task or an environment
 */
export function instanceProblems(
  instanceTypes: readonly string[] | undefined,
  leastGiB: number,
  leastVcpus: number,
): Problem[] {
  if (instanceTypes === undefined) return [];
  const gibOf = (type: string) => (known(type) ? GPU_GIB[type.split('.', 1).join()] : Number.POSITIVE_INFINITY);
  const [wrong] = instanceTypes.filter((type) => gibOf(type) === undefined);
  const largest = Math.max(...instanceTypes.map((type) => gibOf(type) ?? Number.POSITIVE_INFINITY));
  const most = Math.max(...instanceTypes.map(vcpusOf));
  return [
    instanceTypes.length === 0 && 'instanceTypes: expected one or more, got none; name some, or leave it out',
    wrong !== undefined &&
      `instanceTypes: expected families whose GPU the CUDA kernels of ONNX Runtime run on, ${Object.keys(GPU_GIB).join(', ')}, ` +
        `got ${wrong}; take one of those`,
    instanceTypes.length > 0 &&
      largest < leastGiB &&
      `instanceTypes: expected one whose GPU has gpuMemory, ${leastGiB} GiB, got at most ${largest} GiB with ` +
        `${instanceTypes.join(', ')}; name larger ones or lower gpuMemory`,
    instanceTypes.length > 0 &&
      exceeds(leastVcpus, most) &&
      `instanceTypes: expected one with ${leastVcpus} vCPUs, got at most ${most} with ${instanceTypes.join(', ')}; name larger ` +
        'ones, or lower vcpus of a task, memorySize of a function',
  ];
}

/** Returns the vCPUs of an instance type by its size: four for each `xlarge`. Infinity for others, such as `g6.*`. */
function vcpusOf(type: string): number {
  const [, times] = /\.(\d*)xlarge$/.exec(type) ?? [];
  return times === undefined ? Number.POSITIVE_INFINITY : 4 * Number(times || 1);
}
