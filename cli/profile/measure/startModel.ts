import { availableParallelism } from 'node:os';
import type { Model } from '../../../lambda/core/model.ts';

import type { ModelStart } from '../../../lambda/onnx/loadModel.ts';
import type { ModelConfig } from '../../../lambda/onnx/modelConfig.ts';
import type { Started, StartTask, Told } from './messages.ts';
import { limitedTo, openForTask } from './openForTask.ts';

/**
 * Starts a model as a host does, with its warm-up and checks, and tells what that took and what it found.
 *
 * @param beganAt when the first line of this process ran, in milliseconds since 1970
 */
export async function startModel(task: StartTask, beganAt: number, tell: (told: Told) => Promise<void>): Promise<void> {
  // Until here the code of the host was loaded.
  const codeMs = performance.timeOrigin + performance.now() - beganAt;
  let start: ModelStart | undefined;
  const { model, location, config, rows, requestBytes } = await openForTask(task, tell, {
    isThorough: task.isThorough,
    ...(task.isLimited ? { adapt: limitedTo(task.maxBatchRows) } : {}),
    loaded: (took) => {
      start = took;
    },
  });
  if (start === undefined) throw new Error('expected the model to be loaded, it was not');
  const { threads, ...took } = start;
  const [provider] = config.providers ?? task.providers.map((name) => ({ name }));
  const started: Started = {
    model: model.name,
    version: model.version,
    path: location.path,
    ladder: model.ladder,
    mostRows: mostRowsOf(model, config, task.maxBatchRows),
    ...safetyOf(model, config.batching),
    start: { ...took, libraryMs: codeMs + took.libraryMs, processMs: beganAt - task.askedAt },
    threads: threads ?? availableParallelism(),
    hasGivenThreads: config.sessionOptions?.intraOpNumThreads !== undefined,
    provider: provider?.name ?? 'cpu',
    lengths: rows.lengths,
    length: rows.ordinary,
    requestBytes,
  };
  await tell({ kind: 'started', started });
}

/** What the checks have it run is not taken for the most: how many rows it takes, and what to make of that, is found out. */
function mostRowsOf({ maxBatchRows, ladder }: Model, config: ModelConfig, asked: number): number {
  if (config.batching === 'alone') return 1;
  if (ladder.length > 0) return maxBatchRows;
  return config.maxBatchRows ?? asked;
}

function safetyOf(
  { independence, largestDifference }: Model,
  batching: string | undefined,
): Pick<Started, 'verdict' | 'maxDifference'> {
  if (independence === 'proved') return { verdict: 'independent', maxDifference: largestDifference ?? null };
  if (independence === 'unproven') return { verdict: 'unknown', maxDifference: null };
  if (independence !== 'dependent') return { verdict: 'trusted', maxDifference: null };
  return { verdict: batching === 'alone' ? 'alone' : 'dependent', maxDifference: null };
}
