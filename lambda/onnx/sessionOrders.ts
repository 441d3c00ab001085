import type { TensorData } from '../core/tensor.ts';

import type { Provider } from './provider.ts';

/** Orders for the thread of a session, with their replies. */
export interface SessionOrders {
  /** Returns the execution providers that ONNX Runtime was built with. */
  listProviders(none: undefined): string[];
  /** Opens the session, and replaces the open one. */
  open(spec: SessionSpec): SessionMetadata;
  run(task: RunTask): RunReply;
  /** Closes the session and ends the thread without a reply. */
  close(none: undefined): never;
}

export interface SessionSpec {
  readonly path: string;
  readonly providers: readonly Provider[];
  /** Devices to open it on, each with its own session. @default one session, on the provider's device */
  readonly devices?: readonly number[] | undefined;
  readonly sessionOptions: Readonly<Record<string, unknown>>;
}

/** Input or output as ONNX Runtime describes it. A sequence or a map has only a name. */
export interface ValueDescription {
  readonly name: string;
  readonly onnxType?: string;
  readonly shape?: readonly (number | string)[];
}

export interface SessionMetadata {
  readonly inputs: readonly ValueDescription[];
  readonly outputs: readonly ValueDescription[];
}

export interface RunTask {
  readonly inputs: readonly TaskInput[];
  /** Further inputs, whose memory is copied instead of transferred. */
  readonly constants?: readonly TaskInput[];
  /** Names of the outputs to fetch, in order. @default all, in the session's order */
  readonly outputs?: readonly string[] | undefined;
}

export interface TaskInput {
  readonly name: string;
  readonly onnxType: string;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

/** Outputs in the order of the task. FP16 is its bits, in a Uint16Array. */
export interface RunReply {
  readonly outputs: readonly { readonly shape: readonly number[]; readonly data: TensorData }[];
  readonly runMs: number;
  /** Memory of the inputs, returned for reuse. */
  readonly inputs: readonly ArrayBuffer[];
}

export type OrderName = keyof SessionOrders;

export interface OrderMessage {
  readonly order: OrderName;
  readonly argument: unknown;
}

/** Message from the thread: a result, or the message of an error. */
export type OrderReply = { readonly given: unknown } | { readonly error: string };

export interface ThreadData {
  /** Number of orders sent so far. The thread sleeps until it changes. */
  readonly ordersSent: Int32Array<SharedArrayBuffer>;
  /** Parent of the process, which ends with it. @default the process does not end with its parent */
  readonly parent?: number | undefined;
}

/** Returns the buffers of arrays, each once. Strings have none to transfer. */
export function memoryOf(arrays: readonly { readonly data: TensorData }[]): ArrayBuffer[] {
  const buffers = arrays.flatMap(({ data }) => (Array.isArray(data) ? [] : [data.buffer as ArrayBuffer]));
  return [...new Set(buffers)];
}

/** The threads of a session sleep between runs, because spinning threads take a core from decoding and encoding. */
const DEFAULT_SETTINGS = { 'session.force_spinning_stop': '1' };

/**
 * Returns the session settings for ONNX Runtime by full name. Given settings override the defaults.
 *
 * @param given as in `sessionOptions.extra`, with nested or full names
 */
export function sessionSettings(given: unknown): Record<string, unknown> {
  return { ...DEFAULT_SETTINGS, ...Object.fromEntries(fullNames(given)) };
}

function fullNames(settings: unknown, prefix = ''): [string, unknown][] {
  return Object.entries(settings ?? {}).flatMap(([key, value]): [string, unknown][] =>
    typeof value === 'object' ? fullNames(value, `${prefix}${key}.`) : [[prefix + key, value]],
  );
}
