import { availableParallelism, cpus, totalmem } from 'node:os';
import { env } from 'onnxruntime-node';

/** The machine that the figures were measured on. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly platform: string;
  readonly node: string;
  readonly onnxruntime: string;
}

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    onnxruntime: env.versions.node ?? env.versions.common,
  };
}
