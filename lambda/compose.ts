import type { SQSClient } from '@aws-sdk/client-sqs';
import { openRepository } from './adapters/onnx/repository.ts';
import { createQueueWriter } from './adapters/sqs/queueWriter.ts';
import { createRetryDelay } from './adapters/sqs/retryDelay.ts';
import type { Telemetry } from './adapters/telemetry/telemetry.ts';
import type { Config } from './config.ts';
import { createPace } from './core/pace.ts';
import { plan } from './core/plan.ts';
import type { HandlerDependencies } from './createHandler.ts';

/** The outside world a host runs in. */
export interface Surroundings {
  readonly sqs: SQSClient;
  readonly telemetry: Telemetry;
  /** Told what works but not as well as it should. */
  readonly warn: (message: string) => void;
}

export interface Composition extends HandlerDependencies {
  /** Name and version of every model, the default version of each first. */
  readonly models: readonly { readonly name: string; readonly version: string }[];
  /** Ends the threads that hold the models. */
  close(): Promise<void>;
}

/** Loads the models and connects everything that a host needs to score records. */
export async function compose(config: Config, { sqs, telemetry, warn }: Surroundings): Promise<Composition> {
  const repository = await openRepository({
    directory: config.modelsDirectory,
    defaultModel: config.defaultModel,
    maxBatchRows: config.maxBatchRows,
    providers: config.providers,
    allowProviderFallback: config.allowProviderFallback,
    warn,
  });
  return {
    scoring: {
      models: repository,
      writer: createQueueWriter({ sqs, queueUrl: config.resultQueueUrl }),
      plan,
      limits: config,
      pace: createPace(),
      observer: telemetry.observer,
    },
    delayRetries: createRetryDelay({ sqs, queueUrl: config.requestQueueUrl, onProblem: telemetry.observer.problem }),
    telemetry,
    models: repository.models,
    close: repository.close,
  };
}
