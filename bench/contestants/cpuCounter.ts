/** Loaded into a process before its script: says what CPU time it and its scorers have taken so far, in microseconds. */
import { answerParent, cpuMicroseconds } from '../harness/child.ts';

answerParent(cpuMicroseconds);
