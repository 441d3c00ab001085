/** A process of its own that does one thing with a model: what ends it ends nothing else. */
import { enableCompileCache } from 'node:module';
import { goFirstWhenMemoryEnds } from '../../../lambda/onnx/session.ts';
import type { Task, Told } from './measureTasks.ts';

const beganAt = performance.timeOrigin + performance.now();

process.once('message', (task: Task) => void work(task));
// Nobody is left to tell; a run under way would keep the process for as long as it takes.
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));

async function work(task: Task): Promise<void> {
  try {
    await doTask(task);
  } catch (error) {
    await tell({ kind: 'error', message: error instanceof Error ? error.message : String(error) });
  }
  process.removeAllListeners('disconnect');
  process.disconnect();
  // Handles that are still open do not hold the process.
  process.exit();
}

async function doTask(task: Task): Promise<void> {
  // Of a start, what it takes is measured; the others are only to begin soon.
  if (task.do !== 'start') enableCompileCache();
  if (task.do === 'start') {
    const { startModel } = await import('./childTasks.ts');
    return startModel(task, beganAt, tell);
  }
  goFirstWhenMemoryEnds();
  if (task.do === 'reach') {
    const { reachSizes } = await import('./childTasks.ts');
    return reachSizes(task, tell);
  }
  const { timeSizes } = await import('./childTasks.ts');
  return timeSizes(task, tell);
}

/** @returns once it is on its way, so that the process may end */
function tell(told: Told): Promise<void> {
  return new Promise((resolve) => process.send?.(told, () => resolve()));
}
