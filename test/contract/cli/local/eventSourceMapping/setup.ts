import {
  GetQueueAttributesCommand,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { afterEach, expect } from '@jest/globals';
import type { SQSEvent, SQSRecord } from 'aws-lambda';
import {
  type EventSourceMapping,
  type EventSourceMappingOptions,
  type InvocationReport,
  startEventSourceMapping,
} from '../../../../../cli/local/localMapping.ts';
import { type LocalQueues, localSqsClient, startLocalQueues } from '../../../../../cli/local/localServices.ts';

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  // At once, so that the server's end wakes the long polls that the mappings wait for.
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
});

interface Stack {
  queues: LocalQueues;
  sqs: SQSClient;
  send(bodies: readonly (string | Omit<SendMessageBatchRequestEntry, 'Id'>)[]): Promise<void>;
  counts(): Promise<{ visible: number; hidden: number }>;
  map(options?: Partial<Omit<EventSourceMappingOptions, 'onError'>>): Mapped;
}

interface Mapped {
  mapping: EventSourceMapping;
  events: Log<SQSEvent>;
  reports: Log<InvocationReport>;
  errors: Log<Error>;
}

export async function stack({ visibilityTimeoutSeconds = 30, maxReceiveCount = 10 } = {}): Promise<Stack> {
  const queues = await startLocalQueues({ port: 0, visibilityTimeoutSeconds, maxReceiveCount });
  const sqs = localSqsClient(queues);
  cleanups.push(queues.stop);
  return {
    queues,
    sqs,
    send: (messages) => sendAll(sqs, queues.requestQueueUrl, messages),
    counts: () => countMessages(sqs, queues.requestQueueUrl),
    map: (options) => startMapped({ sqs, ...mappingDefaults(queues), ...options }),
  };
}

function mappingDefaults(queues: LocalQueues) {
  return {
    queueUrl: queues.requestQueueUrl,
    queueArn: queues.requestQueueArn,
    region: queues.region,
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
    functionTimeoutSeconds: 30,
    invoke: async () => {},
  };
}

function startMapped(options: Omit<EventSourceMappingOptions, 'onError'>): Mapped {
  const events = createLog<SQSEvent>();
  const reports = createLog<InvocationReport>();
  const errors = createLog<Error>();
  const mapping = startEventSourceMapping({
    ...options,
    invoke: (event, context) => {
      events.add(structuredClone(event));
      return options.invoke(event, context);
    },
    onInvocation: reports.add,
    onError: errors.add,
  });
  cleanups.push(mapping.stop);
  return { mapping, events, reports, errors };
}

interface Log<T> {
  entries: T[];
  add(entry: T): void;
  /** Resolves with the entries once `enough` holds of them. */
  until(enough: (entries: readonly T[]) => boolean): Promise<T[]>;
  reaching(count: number): Promise<T[]>;
}

function createLog<T>(): Log<T> {
  const entries: T[] = [];
  const watchers = new Set<() => void>();
  const until = (enough: (entries: readonly T[]) => boolean) =>
    new Promise<T[]>((resolve) => {
      const watch = () => {
        if (!enough(entries)) return;
        watchers.delete(watch);
        resolve([...entries]);
      };
      watchers.add(watch);
      watch();
    });
  return {
    entries,
    add: (entry) => {
      entries.push(entry);
      for (const watch of [...watchers]) watch();
    },
    until,
    reaching: (count) => until(({ length }) => length >= count),
  };
}

export async function sendAll(sqs: SQSClient, QueueUrl: string, messages: Parameters<Stack['send']>[0]): Promise<void> {
  for (let start = 0; start < messages.length; start += 10) {
    const Entries = messages.slice(start, start + 10).map((message, index) => ({
      Id: String(index),
      ...(typeof message === 'string' ? { MessageBody: message } : message),
    }));
    const { Failed } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    expect(Failed ?? []).toEqual([]);
  }
}

async function countMessages(sqs: SQSClient, QueueUrl: string) {
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }));
  return {
    visible: Number(Attributes?.ApproximateNumberOfMessages),
    hidden: Number(Attributes?.ApproximateNumberOfMessagesNotVisible),
  };
}

export async function untilHidden(stack: Stack, hidden: number): Promise<void> {
  while ((await stack.counts()).hidden < hidden);
}

export function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `message ${index}`);
}

export function recordsOf(events: readonly SQSEvent[]): SQSRecord[] {
  return events.flatMap(({ Records }) => Records);
}

export function total(reports: readonly InvocationReport[]): number {
  return reports.reduce((sum, { records }) => sum + records, 0);
}

export function sizes(reports: readonly InvocationReport[]) {
  return reports.map(({ records, closedBecause }) => [records, closedBecause]);
}
