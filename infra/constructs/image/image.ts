import { rmSync } from 'node:fs';
import type { AssetStaging } from 'aws-cdk-lib';
import type { IRepository } from 'aws-cdk-lib/aws-ecr';
import { DockerImageAsset, Platform } from 'aws-cdk-lib/aws-ecr-assets';
import type { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import type { ImageStage } from '../../image/imageStages.ts';
import { stageImage } from '../../image/stageImage.ts';
import { buildArguments, type ImageBuild } from './imageBuild.ts';
import { checkModelsFolder } from './modelsFolder.ts';

/** A container image in ECR. */
export interface ContainerImage {
  readonly repository: IRepository;
  /** A tag, or a digest that begins with `sha256:`. */
  readonly tagOrDigest: string;
}

/** What an image is built for: what runs in it, with a GPU or without, and the machine it runs on. */
export interface ImageTarget {
  readonly stage: ImageStage;
  readonly architecture: Architecture;
  /** The cards of what runs in it. @default one with a GPU, else none */
  readonly cards?: number;
}

export const ARCHITECTURES = ['arm64', 'x86_64'] as const;

interface ImageSource {
  readonly image?: ContainerImage;
  readonly models: { readonly folder?: string; readonly s3?: unknown; readonly efs?: unknown };
  readonly defaultModel?: string;
  readonly imageBuild?: ImageBuild;
}

/**
 * The given image, or one with the runtime, and with the models if they are a folder, which `cdk deploy` builds.
 *
 * @throws Error when the folder is not a model repository, or there are no models, or twice
 */
export function createImage(
  scope: Construct,
  { image, models: { folder, s3, efs }, defaultModel, imageBuild = {} }: ImageSource,
  target: ImageTarget,
): ContainerImage {
  if ([image, folder, s3, efs].every((given) => given === undefined)) {
    throw new Error('models: expected models or an image with models, got neither; give one of them');
  }
  if (image !== undefined && folder !== undefined) {
    throw new Error('models: expected a folder of models or an image, got both; give one of them');
  }
  if (image !== undefined) return image;
  if (folder !== undefined)
    checkModelsFolder(folder, defaultModel, target.cards ?? (target.stage.endsWith('-gpu') ? 1 : 0));
  return buildImage(scope, folder, imageBuild, target);
}

function buildImage(
  scope: Construct,
  modelsDirectory: string | undefined,
  imageBuild: ImageBuild,
  { stage, architecture }: ImageTarget,
): ContainerImage {
  const directory = stageImage({ modelsDirectory, architecture: nameOf(architecture), stage });
  const platform = Platform.custom(architecture.dockerPlatform);
  const asset = new DockerImageAsset(scope, 'Image', {
    directory,
    target: stage,
    platform,
    buildArgs: buildArguments(imageBuild, stage),
  });
  // The CDK has copied the folder to its output, unless it was told to build from the original.
  const { absoluteStagedPath } = asset.node.findChild('Staging') as AssetStaging;
  if (absoluteStagedPath !== directory) rmSync(directory, { recursive: true });
  return { repository: asset.repository, tagOrDigest: asset.imageTag };
}

function nameOf({ name }: Architecture): (typeof ARCHITECTURES)[number] {
  const known = ARCHITECTURES.find((architecture) => architecture === name);
  if (known !== undefined) return known;
  throw new Error(`architecture: expected one of ${ARCHITECTURES.join(', ')}, got ${name}; take one of them`);
}
