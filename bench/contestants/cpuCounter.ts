/** Loaded into a process before its script: says what CPU time all its threads have taken so far, in microseconds. */
import { answerParent } from '../harness/child.ts';

answerParent(() => {
  const { user, system } = process.cpuUsage();
  return user + system;
});
