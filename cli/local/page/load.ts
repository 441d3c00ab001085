import { SendMessageBatchCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { messageOf } from '../../../lambda/core/failure.ts';
import type { Range } from '../../../lambda/core/limits.ts';
import { ownAttributes } from './ownMessages.ts';
import type { LoadSeen } from './wire.ts';

export interface LoadOptions {
  readonly sqs: SQSClient;
  /** One for each shard; they take turns. */
  readonly queueUrls: readonly string[];
  /** The model whose samples are sent at first. */
  readonly model: string;
  /** Texts of requests. */
  readonly samplesOf: (model: string) => readonly string[];
  /** Messages that wait on the queues. */
  readonly waiting: () => number;
  readonly onSent: (messages: number) => void;
  /** It sends less than it was told to, or no longer does. */
  readonly onChange: () => void;
}

/** Sends samples of a model at a steady rate, through SQS as everybody does. */
export interface Load {
  set(perSecond: number, model: string): void;
  seen(): LoadSeen;
  /** Sends nothing more, and resolves when what is under way has been sent. */
  stop(): Promise<void>;
}

/** Messages a second. */
export const LOAD_PER_SECOND: Range = { least: 0, most: 5_000 };

const TURN_MS = 20;
const MOST_ENTRIES = 10;
const MOST_CALLS = 16;
/** The queue is in this process' memory. */
const MOST_WAITING = 20_000;

export function createLoad({ sqs, queueUrls, model, samplesOf, waiting, onSent, onChange }: LoadOptions): Load {
  let settings: LoadSeen = { perSecond: 0, model };
  let timer: NodeJS.Timeout | undefined;
  let turnedAt = 0;
  let owed = 0;
  let nextSample = 0;
  let nextQueue = 0;
  const calls = new Set<Promise<void>>();

  const turn = (): void => {
    const now = performance.now();
    const { perSecond } = settings;
    owed += (perSecond * (now - turnedAt)) / 1000;
    turnedAt = now;
    const isFull = waiting() > MOST_WAITING;
    if (isFull) owed = 0;
    const fallsBehind = owed > perSecond + 1;
    if (fallsBehind) owed = perSecond;
    hold(isFull ? 'full' : fallsBehind ? 'slow' : undefined);
    while (owed >= 1 && calls.size < MOST_CALLS) {
      const messages = Math.min(MOST_ENTRIES, Math.floor(owed));
      owed -= messages;
      const call = send(messages).finally(() => calls.delete(call));
      calls.add(call);
    }
  };
  const send = async (messages: number): Promise<void> => {
    const samples = samplesOf(settings.model);
    const Entries = Array.from({ length: messages }, (_, index) => ({
      Id: String(index),
      MessageBody: samples[nextSample++ % samples.length],
      MessageAttributes: ownAttributes('load'),
    }));
    const QueueUrl = queueUrls[nextQueue++ % queueUrls.length];
    try {
      const { Successful = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
      onSent(Successful.length);
    } catch (error) {
      stopTurns();
      settings = { ...settings, perSecond: 0, heldBack: `sending failed: ${messageOf(error)}` };
      onChange();
    }
  };
  let heldUntil = 0;
  const hold = (why: keyof typeof HELD_BACK | undefined): void => {
    const now = performance.now();
    if (why === undefined && now < heldUntil) return;
    if (why !== undefined) heldUntil = now + HOLD_SHOWN_MS;
    const heldBack = why && HELD_BACK[why];
    if (heldBack === settings.heldBack) return;
    settings = { ...settings, heldBack };
    onChange();
  };
  const stopTurns = (): void => {
    clearInterval(timer);
    timer = undefined;
    owed = 0;
  };
  return {
    set(perSecond, ofModel) {
      settings = { perSecond, model: ofModel };
      if (perSecond === 0) return stopTurns();
      if (timer !== undefined) return;
      turnedAt = performance.now();
      timer = setInterval(turn, TURN_MS);
    },
    seen: () => settings,
    async stop() {
      stopTurns();
      settings = { perSecond: 0, model: settings.model };
      await Promise.all(calls);
    },
  };
}

const HOLD_SHOWN_MS = 2_000;
const HELD_BACK = {
  full: `more than ${MOST_WAITING.toLocaleString('en-US')} messages wait, so no more are sent for now`,
  slow: 'this machine sends no faster',
} as const;
