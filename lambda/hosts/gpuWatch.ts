import type { GpuReading } from '../aws/nvidiaDevices.ts';
import { type Clock, SYSTEM_CLOCK } from '../core/concurrency.ts';
import { messageOf } from '../core/failure.ts';
import { isNvidia } from '../onnx/provider.ts';

interface GpuWatchOptions {
  /** Asks what each device does. */
  readonly read: () => Promise<readonly GpuReading[]>;
  readonly onReadings: (readings: readonly GpuReading[]) => void;
  /** Told once that nothing is known of the devices, and again only if that was known in between. */
  readonly onProblem: (message: string) => void;
  /** @default the system's */
  readonly clock?: Clock | undefined;
}

/** CloudWatch keeps a value for a minute. */
const EVERY_MS = 60_000;

/**
 * Looks what the devices do, and every minute from then on, once it is told of an execution provider that computes on
 * them. Never fatal: without it, there are no metrics of them.
 *
 * @returns what is to be told of every provider
 */
export function createGpuWatch(options: GpuWatchOptions): (provider: string) => void {
  const { read, onReadings, onProblem, clock = SYSTEM_CLOCK } = options;
  let isWatching = false;
  let isAsking = false;
  let isKnown = true;

  const unknown = (why: string): void => {
    if (isKnown) onProblem(`there are no metrics of GPUs: ${why}`);
    isKnown = false;
  };
  const look = async (): Promise<void> => {
    clock.after(EVERY_MS, look);
    // A process that waits in the driver cannot be killed; another one would wait beside it.
    if (isAsking) return unknown('nvidia-smi does not end');
    isAsking = true;
    try {
      onReadings(await read());
      isKnown = true;
    } catch (error) {
      unknown(messageOf(error));
    }
    isAsking = false;
  };
  return (provider) => {
    if (isWatching || !isNvidia(provider)) return;
    isWatching = true;
    void look();
  };
}
