/** Preload script that reports the CPU time of its process and its scorers so far, in microseconds. */
import { answerParent, cpuMicroseconds } from '../harness/child.ts';

answerParent(cpuMicroseconds);
