import { readdirSync, readFileSync } from 'node:fs';

/** Answers the questions of the parent that started this process with `openProcesses`, and exits with it. */
export function answerParent<Question>(answer: (question: Question) => unknown): void {
  process.on('message', async (question: Question) => process.send?.(await answer(question)));
  process.once('disconnect', () => process.exit());
}

/** Returns the CPU time of this process and its scorers so far, in microseconds. */
export function cpuMicroseconds(): number {
  const { user, system } = process.cpuUsage();
  return childrenOf('self').reduce((sum, pid) => sum + cpuOfThreads(pid), user + system);
}

function childrenOf(pid: string): string[] {
  const tasks = `/proc/${pid}/task`;
  return readdirSync(tasks).flatMap((id) => readFileSync(`${tasks}/${id}/children`, 'utf8').split(' ').filter(Boolean));
}

/** @see https://docs.kernel.org/scheduler/sched-stats.html */
function cpuOfThreads(pid: string): number {
  const tasks = `/proc/${pid}/task`;
  const nanoseconds = readdirSync(tasks).map((id) =>
    Number(readFileSync(`${tasks}/${id}/schedstat`, 'utf8').split(' ')[0]),
  );
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1000;
}
