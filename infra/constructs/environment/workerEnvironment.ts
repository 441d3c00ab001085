import { CONFIG_KEYS } from '../../../lambda/configKeys.ts';

/** What a worker must know besides what every host does. */
export interface WorkerSettings {
  readonly timeoutSeconds: number;
  readonly visibilitySeconds: number;
  readonly stopSeconds: number;
  readonly healthPort: number;
  readonly mostPolls: number | undefined;
  readonly pipelineDepth: number | undefined;
}

/** The environment variables of a worker alone. What is left out keeps the runtime's own default. */
export function workerEnvironment(settings: WorkerSettings): Record<string, string> {
  const { mostPolls, pipelineDepth } = settings;
  return {
    [CONFIG_KEYS.timeoutSeconds]: String(settings.timeoutSeconds),
    [CONFIG_KEYS.visibilitySeconds]: String(settings.visibilitySeconds),
    [CONFIG_KEYS.stopSeconds]: String(settings.stopSeconds),
    [CONFIG_KEYS.healthPort]: String(settings.healthPort),
    ...(mostPolls !== undefined && { [CONFIG_KEYS.mostPolls]: String(mostPolls) }),
    ...(pipelineDepth !== undefined && { [CONFIG_KEYS.pipelineDepth]: String(pipelineDepth) }),
  };
}
