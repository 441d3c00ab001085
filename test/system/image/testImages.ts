/**
 * Builds the images and runs them as Lambda and ECS do: `npm run test:image`. With `-- --cuda`, the GPUs' images with the
 * real CUDA libraries, 1.2 GB from PyPI.
 */
import { after, before } from 'node:test';
import { common, cuda, stopCommon } from './common.ts';
import { installHostPackages } from './hostPackages.ts';
import { removeLeftovers, useOwnFolder } from './ownNames.ts';
import './lambdaImage.ts';
import './workerImage.ts';
import './gpuImages.ts';

before(async () => {
  await installHostPackages({ cuda });
  await removeLeftovers();
  useOwnFolder();
  await common();
});
after(stopCommon);
