import { outside } from '../../../lambda/core/limits.ts';
import { oneOf, type Problem } from '../base/refuse.ts';
import { ARCHITECTURES } from '../image/image.ts';

export interface FargateSettings {
  readonly architecture: { readonly name: string };
  readonly vcpus: number;
  readonly memoryMb: number;
  readonly ephemeralStorageMb: number | undefined;
  readonly stopTimeoutSeconds: number;
}

interface Memory {
  readonly least: number;
  readonly most: number;
  readonly step: number;
}

const GIB = 1024;

/** In MiB, by vCPUs. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-cpu-memory-error.html */
const MEMORY: Readonly<Record<number, Memory>> = {
  0.5: { least: GIB, most: 4 * GIB, step: GIB },
  1: { least: 2 * GIB, most: 8 * GIB, step: GIB },
  2: { least: 4 * GIB, most: 16 * GIB, step: GIB },
  4: { least: 8 * GIB, most: 30 * GIB, step: GIB },
  8: { least: 16 * GIB, most: 60 * GIB, step: 4 * GIB },
  16: { least: 32 * GIB, most: 120 * GIB, step: 8 * GIB },
};

/** @see https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html */
const LONGEST_STOP_SECONDS = 120;

/** What Fargate refuses. */
export function fargateProblems(settings: FargateSettings): Problem[] {
  const { architecture, vcpus, ephemeralStorageMb, stopTimeoutSeconds } = settings;
  return [
    oneOf('architecture', architecture.name, ARCHITECTURES),
    oneOf(
      'vcpus',
      vcpus,
      Object.keys(MEMORY)
        .map(Number)
        .toSorted((a, b) => a - b),
    ),
    memoryProblem(settings),
    outside('ephemeralStorageMb', ephemeralStorageMb, { least: 21 * GIB, most: 200 * GIB }),
    stopTimeoutSeconds > LONGEST_STOP_SECONDS
      ? `stopTimeoutSeconds: expected at most ${LONGEST_STOP_SECONDS}, which is what Fargate waits, got ` +
        `${stopTimeoutSeconds}; lower it, and timeoutSeconds with it`
      : undefined,
  ];
}

function memoryProblem({ vcpus, memoryMb }: FargateSettings): Problem {
  const memory = MEMORY[vcpus];
  if (memory === undefined) return undefined;
  const { least, most, step } = memory;
  if (memoryMb >= least && memoryMb <= most && memoryMb % step === 0) return undefined;
  return (
    `memoryMb: expected ${least} to ${most} in steps of ${step}, which Fargate has with ${vcpus} vCPU, ` +
    `got ${memoryMb}; choose one of these or other vcpus`
  );
}
