import type { Duration, Size } from 'aws-cdk-lib';
import { bytesOf, millisecondsOf } from '../base/units.ts';

/** Settings of the scoring itself; each is a variable of the host's environment. */
export interface Tuning {
  /** Most rows in one run. @default 512 */
  readonly maxBatchRows?: number;
  /** Most elements that the inputs of one run hold together, padding included. @default 4194304 */
  readonly maxBatchElements?: number;
  /** Most rows in one request. @default 10000 */
  readonly maxRequestRows?: number;
  /** Most requests in one packed message. @default 10000 */
  readonly maxRequestsPerMessage?: number;
  /** Most characters of the answer to one message. @default a 64th of the memory, in bytes */
  readonly maxAnswerCharacters?: number;
  /** Before the deadline, after which nothing is started; whole milliseconds. @default 1 second */
  readonly deadlineMargin?: Duration;
  /**
   * Percent of a model's run time that goes into running rows alone as well, to compare their answers. 0: nothing is
   * compared. @default 1
   */
  readonly checkPercent?: number;
  /** The largest object that is read from the payload bucket. @default a 64th of the memory */
  readonly maxPayloadSize?: Size;
  /** Whether to load all models at start, rather than when a request names them. @default true */
  readonly preload?: boolean;
  /** ONNX Runtime execution providers, first choice first, comma-separated. @default 'cpu', and 'cuda' with a GPU */
  readonly providers?: string;
  /** Whether to go on with the next provider, with a warning, when one cannot be loaded. @default false */
  readonly allowProviderFallback?: boolean;
}

/** The settings with plain numbers, as the environment has them. */
export interface TuningNumbers extends Omit<Tuning, 'deadlineMargin' | 'maxPayloadSize'> {
  readonly deadlineMarginMs?: number | undefined;
  readonly maxPayloadBytes?: number | undefined;
}

/** @throws Error when an amount is a token */
export function tuningNumbers({ deadlineMargin, maxPayloadSize, ...others }: Tuning): TuningNumbers {
  return {
    ...others,
    deadlineMarginMs: millisecondsOf('deadlineMarginMs', deadlineMargin),
    maxPayloadBytes: bytesOf('maxPayloadBytes', maxPayloadSize),
  };
}
