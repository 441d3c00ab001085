import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
} from '@aws-sdk/client-sqs';

/** The calls that threads make, by operation. */
export const COMMANDS = {
  ReceiveMessage: ReceiveMessageCommand,
  SendMessageBatch: SendMessageBatchCommand,
  DeleteMessageBatch: DeleteMessageBatchCommand,
  ChangeMessageVisibilityBatch: ChangeMessageVisibilityBatchCommand,
} as const;

export type Operation = keyof typeof COMMANDS;

/** A call for a thread to make: up to ten messages cross at a time, and many more requests where they are packed. */
export interface CallMessage {
  readonly id: number;
  readonly operation: Operation;
  readonly input: object;
}

/** Said by a thread once it can make calls. */
export const READY = 'ready';

export type CallReply =
  | typeof READY
  | { readonly id: number; readonly output: object }
  | { readonly id: number; readonly error: PortableError };

/** What is read of an SDK's error. Structured cloning would leave an `Error` nothing but its message and stack. */
export interface PortableError {
  readonly name: string;
  readonly message: string;
  /** Of the system, such as `ECONNREFUSED`. */
  readonly code: unknown;
  readonly $fault: unknown;
  readonly $metadata: { readonly httpStatusCode: unknown; readonly clockSkewCorrected: unknown };
}

export function toPortable(error: unknown): PortableError {
  const { name, message, code, $fault, $metadata } = Object(error);
  return {
    name: String(name),
    message: String(message),
    code,
    $fault,
    $metadata: {
      httpStatusCode: $metadata?.httpStatusCode,
      clockSkewCorrected: $metadata?.clockSkewCorrected,
    },
  };
}

export function toError({ message, ...rest }: PortableError): Error {
  return Object.assign(new Error(message), rest);
}
