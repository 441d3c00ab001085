/** Child process that performs one task with a model. A crash of the model ends only this process. */
import { enableCompileCache } from 'node:module';
import { goFirstWhenMemoryEnds } from '../../../lambda/onnx/session.ts';
import type { Told } from './childTasks.ts';
import type { Task } from './measureTasks.ts';

const beganAt = performance.timeOrigin + performance.now();

process.once('message', (task: Task) => void work(task));
// The parent has exited. A run in progress would keep this process alive until it ends.
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));

async function work(task: Task): Promise<void> {
  try {
    await doTask(task);
  } catch (error) {
    await tell({ kind: 'error', message: error instanceof Error ? error.message : String(error) });
  }
  process.removeAllListeners('disconnect');
  process.disconnect();
  // Open handles must not keep the process alive.
  process.exit();
}

async function doTask(task: Task): Promise<void> {
  if (task.do === 'start') {
    // A compile cache would change the measured start.
    const { startModel } = await import('./childTasks.ts');
    return startModel(task, beganAt, tell);
  }
  enableCompileCache();
  goFirstWhenMemoryEnds();
  const { runSizes } = await import('./childTasks.ts');
  return runSizes(task, tell);
}

/** @returns a promise that resolves when the message is sent, so that the process may exit */
function tell(told: Told): Promise<void> {
  return new Promise((resolve) => process.send?.(told, () => resolve()));
}
