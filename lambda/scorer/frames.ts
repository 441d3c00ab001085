import { DefaultSerializer, deserialize } from 'node:v8';
import { type Failure, failure, type TransientCode } from '../core/failure.ts';
import type { Body } from '../core/microBatch.ts';
import type { ModelDescription } from '../core/model.ts';
import type { BatchMismatch, Observer } from '../core/observer.ts';
import type { PayloadPointer } from '../core/record.ts';
import type { Answer } from '../core/replies.ts';
import type { CallOptions, ScoringLimits } from '../core/score.ts';
import type { BatchingState } from '../core/verify.ts';

/* Frames between a host and its scorer. A frame is a value, serialized by V8. */

/** Models that a scorer opens, and its settings. Sent once, first. */
export interface Opening {
  readonly repository: Repository;
  readonly load: LoadSettings;
  readonly limits: ScoringLimits;
  /** Percentage of the run time for checks of real requests. */
  readonly checkPercent: number;
  /** True if bodies may be pointers to the payload bucket, which the host reads. */
  readonly hasPayloads: boolean;
  /** Models whose batched answers differed in earlier scorers of the host. */
  readonly mismatches: readonly Pick<BatchMismatch, 'model' | 'version'>[];
  /** Models that are not used for `forMs`, because they end processes. */
  readonly broken: readonly BrokenModel[];
  readonly hasStages: boolean;
  /** True if other processes go before this one. */
  readonly isBackground: boolean;
  /** Milliseconds of `process.hrtime` when the host's `performance.now` was 0, so that both processes share a clock. */
  readonly clockStart: number;
}

export interface BrokenModel {
  readonly model: string;
  readonly forMs: number;
}

export type Repository =
  | {
      readonly directory: string;
      readonly defaultModel?: string | undefined;
      readonly preload: boolean;
      readonly leavesOutBroken?: boolean | undefined;
    }
  /** One model: its folder or file. */
  | { readonly path: string };

/** Loading of models. See `LoadOptions` in `onnx/loadModel.ts`. */
export interface LoadSettings {
  readonly maxBatchRows: number;
  readonly maxBatchElements: number;
  readonly providers: readonly string[];
  readonly allowProviderFallback: boolean;
}

/** Description of a model, and its current batching. */
export type DescribedModel = ModelDescription & { readonly batching: BatchingState };

export interface OpenedModels {
  /** Name and version of every model, the default version of each first. */
  readonly models: readonly { readonly name: string; readonly version: string }[];
  readonly devices: number;
}

export interface Assignment {
  readonly provider: string;
  readonly devices: readonly string[];
}

/** Keys and bodies in turn, because V8 serializes texts faster than objects. */
type KeysAndBodies = readonly Body[];

/** Frames from the host. */
export type ToScorer =
  | { readonly is: 'open'; readonly opening: Opening }
  /** First bodies of a call. The call starts after the others. */
  | { readonly is: 'bodies'; readonly call: number; readonly bodies: KeysAndBodies }
  | {
      readonly is: 'score';
      readonly call: number;
      readonly bodies: KeysAndBodies;
      readonly remainingMs: number;
      /** True if one request runs at a time, with nothing beside it. */
      readonly isAlone: boolean;
      readonly defaults: CallOptions['defaults'];
      /** Failures of packed requests that must not be decoded. */
      readonly refusals: readonly { readonly body: number; readonly position: number; readonly failure: Failure }[];
    }
  | { readonly is: 'abort'; readonly call: number }
  | { readonly is: 'broken'; readonly broken: BrokenModel }
  /** Replies of `size` characters or bytes in total are written. */
  | { readonly is: 'written'; readonly call: number; readonly size: number }
  | {
      readonly is: 'describe';
      readonly ask: number;
      readonly name: string | undefined;
      readonly version: string | undefined;
    }
  | { readonly is: 'size'; readonly ask: number; readonly bytes: number }
  | { readonly is: 'payload'; readonly ask: number; readonly read: string | Failure };

/** Reports to the observer of a call. */
export type Told =
  | {
      readonly is: 'microBatch';
      readonly report: Parameters<Observer['microBatch']>[0];
      readonly bodies: readonly number[];
    }
  | { readonly is: 'decoded' | 'checked'; readonly ms: number }
  | { readonly is: 'transformed'; readonly report: Parameters<NonNullable<Observer['transformed']>>[0] }
  | { readonly is: 'batchMismatch'; readonly mismatch: BatchMismatch }
  | { readonly is: 'stage'; readonly stage: Parameters<NonNullable<Observer['stage']>> }
  | { readonly is: 'problem'; readonly error: unknown };

/** Replies by body: first answers, then bodies that are handed back. */
export interface PlainReplies {
  readonly of: readonly number[];
  readonly texts: readonly string[];
  /** Other fields of answers, by their place in `of`. An answer without a note is the scores of one request as text. */
  readonly notes: readonly ({ readonly at: number } & Pick<Answer, 'failures' | 'requests' | 'outputs'>)[];
  readonly handedBack: readonly Failure<TransientCode>[];
}

export type FromScorer =
  | { readonly is: 'opened'; readonly opened: OpenedModels }
  | { readonly is: 'refused'; readonly error: string }
  | { readonly is: 'replies'; readonly call: number; readonly replies: PlainReplies; readonly told: readonly Told[] }
  | { readonly is: 'done'; readonly call: number; readonly told: readonly Told[] }
  /** Work that began has ended, and no work has begun since. */
  | { readonly is: 'ended'; readonly works: readonly number[] }
  | { readonly is: 'described'; readonly ask: number; readonly model: DescribedModel | Failure }
  /** Requests an object of the payload bucket. The host sends its size, and reads it when the scorer has room. */
  | { readonly is: 'read'; readonly ask: number; readonly call: number; readonly pointer: PayloadPointer }
  | { readonly is: 'room'; readonly ask: number }
  | { readonly is: 'warn' | 'inform'; readonly message: string }
  /** Warning of Node, or of a package that a transform imports. */
  | { readonly is: 'warning'; readonly name: string; readonly message: string }
  | { readonly is: 'assigned'; readonly assignment: Assignment }
  /** A model was loaded, and `probes` rows were compared. */
  | { readonly is: 'loaded'; readonly probes: number }
  /** The main thread is running its event loop while a transform is at work. */
  | { readonly is: 'alive' };

/** Sent before work begins, by a synchronous write, so that it arrives even if the work kills the process. */
export type Blame =
  | {
      readonly is: 'begins';
      readonly work: number;
      readonly call: number;
      readonly isRun: boolean;
      readonly model: string;
      readonly expectedMs: number;
      /** Body and position of each request, one after the other. */
      readonly places: Int32Array;
      /** Work that has ended before. A transform that blocks the event loop holds back frames that would say so. */
      readonly ended: readonly number[];
    }
  /** The call works only on this body from now on. */
  | { readonly is: 'body'; readonly call: number; readonly body: number }
  | { readonly is: 'opens'; readonly work: number; readonly model: string }
  /** A model is open, or a request that runs alone has ended. */
  | { readonly is: 'ends'; readonly work: number };

/** Recreates a failure, which has lost its class between processes. */
export function revive<C extends Failure['code']>({ code, message, outage }: Failure<C>): Failure<C> {
  return failure(code, message, outage);
}

const LENGTH_BYTES = 4;

/** Encodes one frame: its length and its value. */
export function encodeFrame(value: ToScorer | FromScorer | Blame): Buffer {
  const serializer = new DefaultSerializer();
  serializer.writeRawBytes(Buffer.alloc(LENGTH_BYTES));
  serializer.writeHeader();
  serializer.writeValue(value);
  const frame = serializer.releaseBuffer();
  frame.writeUInt32LE(frame.length - LENGTH_BYTES);
  return frame;
}

/** Creates a reader that takes bytes and passes on each complete frame. */
export function createFrameReader<Value>(take: (value: Value) => void): (bytes: Buffer) => void {
  let chunks: Buffer[] = [];
  let held = 0;
  let wanted = LENGTH_BYTES;
  return (bytes) => {
    chunks.push(bytes);
    held += bytes.length;
    if (held < wanted) return;
    const all = chunks.length === 1 ? bytes : Buffer.concat(chunks, held);
    let at = 0;
    for (;;) {
      const left = all.length - at;
      wanted = left < LENGTH_BYTES ? LENGTH_BYTES : LENGTH_BYTES + all.readUInt32LE(at);
      if (left < wanted) break;
      const value = all.subarray(at + LENGTH_BYTES, at + wanted);
      at += wanted;
      take(deserialize(value));
    }
    chunks = at === all.length ? [] : [all.subarray(at)];
    held = all.length - at;
  };
}
