import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { S3Client } from '@aws-sdk/client-s3';
import type { SQSClient } from '@aws-sdk/client-sqs';
import type { MiddlewareStack } from '@smithy/types';

/** What one call to AWS was: sizes and times, never a part of a message. */
export interface CallReport {
  /** Such as `SQS`. */
  readonly aws: string;
  /** Such as `SendMessageBatch`. */
  readonly operation: string;
  /** Entries of a batch request; 1 for anything else. */
  readonly entries: number;
  /** Milliseconds until the answer, or until there was none. */
  readonly ms: number;
  /** 1 for the first call with these entries, then 2, 3, … */
  readonly attempt: number;
  readonly outcome: 'done' | 'refused in part' | 'failed';
  /** Entries that an answer refused. */
  readonly refused?: number;
  /** The error's name. */
  readonly error?: string;
}

const attempts = new WeakMap<object, number>();

/** Notes which attempt a command is, for whoever observes the call. */
export function ofAttempt<C extends { readonly input: object }>(number: number, command: C): C {
  attempts.set(command.input, number);
  return command;
}

/** Has `onCall`, if there is one, told of each call of a client once it has ended. @returns the client */
export function observed<C extends SQSClient | DynamoDBClient | S3Client>(
  client: C,
  onCall: ((report: CallReport) => void) | undefined,
): C {
  if (onCall === undefined) return client;
  // Which commands a client has makes no difference here.
  const middlewareStack = client.middlewareStack as MiddlewareStack<object, object>;
  middlewareStack.add(
    (next, { clientName = '', commandName = '' }) => {
      const aws = clientName.replace(/Client$/, '');
      const operation = commandName.replace(/Command$/, '');
      return (args) =>
        reported(
          { aws, operation, input: args.input },
          onCall,
          () => next(args),
          ({ output }) => output,
        );
    },
    { name: 'observedCalls', step: 'initialize', priority: 'high' },
  );
  return client;
}

/** What is called, and with what. */
export interface ReportedCall extends Pick<CallReport, 'aws' | 'operation'> {
  readonly input: object;
}

/**
 * Makes a call, and tells of it once it has ended.
 *
 * @throws what the call throws
 */
export async function reported<R extends object>(
  { input, ...called }: ReportedCall,
  onCall: (report: CallReport) => void,
  call: () => Promise<R>,
  outputOf: (result: R) => object = (result) => result,
): Promise<R> {
  const startedAt = performance.now();
  const tell = (end: Pick<CallReport, 'outcome' | 'refused' | 'error'>): void =>
    onCall({
      ...called,
      entries: entriesIn(input),
      ms: performance.now() - startedAt,
      attempt: attempts.get(input) ?? 1,
      ...end,
    });
  try {
    const result = await call();
    const refused = refusedIn(outputOf(result));
    tell(refused > 0 ? { outcome: 'refused in part', refused } : { outcome: 'done' });
    return result;
  } catch (error) {
    tell({ outcome: 'failed', error: error instanceof Error ? error.name : typeof error });
    throw error;
  }
}

/** Of SQS's batch requests, and of DynamoDB's, which list entries by table. */
function entriesIn(input: object): number {
  if ('Entries' in input && Array.isArray(input.Entries)) return input.Entries.length;
  return 'RequestItems' in input ? countOf(input.RequestItems) : 1;
}

function refusedIn(output: object): number {
  if ('Failed' in output && Array.isArray(output.Failed)) return output.Failed.length;
  return 'UnprocessedItems' in output ? countOf(output.UnprocessedItems) : 0;
}

function countOf(byTable: unknown): number {
  return Object.values(byTable ?? {}).flat().length;
}
