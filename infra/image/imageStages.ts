/** What runs in an image: the handler of a Lambda function, or the worker. */
export type ImageHost = 'lambda' | 'worker';

interface StageFacts {
  readonly host: ImageHost;
  readonly hasGpu: boolean;
  /** The argument of the Dockerfile that names its base image. */
  readonly baseArgument: string;
}

/** The stages of the Dockerfile that are run. */
export const IMAGE_STAGES = {
  lambda: { host: 'lambda', hasGpu: false, baseArgument: 'LAMBDA_BASE' },
  'lambda-gpu': { host: 'lambda', hasGpu: true, baseArgument: 'LAMBDA_BASE' },
  worker: { host: 'worker', hasGpu: false, baseArgument: 'WORKER_BASE' },
  'worker-gpu': { host: 'worker', hasGpu: true, baseArgument: 'WORKER_BASE' },
} as const satisfies Readonly<Record<string, StageFacts>>;

export type ImageStage = keyof typeof IMAGE_STAGES;
