import type { TensorData } from '../core/tensor.ts';

import type { Provider } from './provider.ts';

/** What the thread of a session can be asked to do, and what it replies. */
export interface SessionOrders {
  /** The execution providers that ONNX Runtime was built with. */
  listProviders(none: undefined): string[];
  /** Opens the session, in place of the one that is open. */
  open(spec: SessionSpec): SessionMetadata;
  run(task: RunTask): RunReply;
  /** Closes the session and ends the thread; there is no reply. */
  close(none: undefined): never;
}

/** What it takes to open a session. */
export interface SessionSpec {
  /** The model file. */
  readonly path: string;
  readonly providers: readonly Provider[];
  /**
   * The devices to open it on, each in a session of its own. @default one session, on the device that its provider
   * names
   */
  readonly devices?: readonly number[] | undefined;
  readonly sessionOptions: Readonly<Record<string, unknown>>;
}

/** One input or output as ONNX Runtime describes it. What is not a tensor (a sequence, a map) has a name only. */
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
  /** Further inputs, whose memory is copied and not given away. */
  readonly constants?: readonly TaskInput[];
  /** The names of the outputs to fetch, in that order. @default all, in the session's order */
  readonly outputs?: readonly string[] | undefined;
}

export interface TaskInput {
  readonly name: string;
  readonly onnxType: string;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

/** Outputs in the order of the task; float16 as its bits, in a Uint16Array. */
export interface RunReply {
  readonly outputs: readonly { readonly shape: readonly number[]; readonly data: TensorData }[];
  readonly runMs: number;
  /** The memory of the inputs, given back. */
  readonly inputs: readonly ArrayBuffer[];
}

export type OrderName = keyof SessionOrders;

/** One order, as it is sent to the thread. */
export interface OrderMessage {
  readonly order: OrderName;
  readonly argument: unknown;
}

/** What comes back: what it gave, or what its error said. */
export type OrderReply = { readonly given: unknown } | { readonly error: string };

/** What a thread is started with. */
export interface ThreadData {
  /** One number: how many orders were sent so far. The thread sleeps until it changes. */
  readonly ordersSent: Int32Array<SharedArrayBuffer>;
  /** The process ends with this one, its parent. @default it does not */
  readonly parent?: number | undefined;
}

/** The memory of arrays, each once. Strings have none that could be given away. */
export function memoryOf(arrays: readonly { readonly data: TensorData }[]): ArrayBuffer[] {
  const buffers = arrays.flatMap(({ data }) => (Array.isArray(data) ? [] : [data.buffer as ArrayBuffer]));
  return [...new Set(buffers)];
}

/** Between runs the threads of a session sleep: threads that spin take a core from decoding and encoding. */
const DEFAULT_SETTINGS = { 'session.force_spinning_stop': '1' };

/**
 * The session settings that ONNX Runtime is given, by their full names: what is given replaces the defaults one by one.
 *
 * @param given as in `sessionOptions.extra`, its names nested or written out
 */
export function sessionSettings(given: unknown): Record<string, unknown> {
  return { ...DEFAULT_SETTINGS, ...Object.fromEntries(fullNames(given)) };
}

function fullNames(settings: unknown, prefix = ''): [string, unknown][] {
  return Object.entries(settings ?? {}).flatMap(([key, value]): [string, unknown][] =>
    typeof value === 'object' ? fullNames(value, `${prefix}${key}.`) : [[prefix + key, value]],
  );
}
