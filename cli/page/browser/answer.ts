import { count, duration, percent } from '../../format.ts';
import type { InvocationSeen, ResultSeen } from '../wire.ts';
import { block, make, things } from './dom.ts';

/** Time after an answer at which its invocation has ended, or is no longer among the newest. */
const INVOCATION_MS = 5_000;

/** Creates the view of the latest answer and of its batch. */
export function createAnswer(place: HTMLElement) {
  let awaited: string | undefined;
  return {
    awaited: () => awaited,
    sent(messageId: string): void {
      awaited = messageId;
      place.replaceChildren(make('p', {}, 'Sent. It waits for its batch.'));
    },
    refused(sentence: string): void {
      awaited = undefined;
      place.replaceChildren(make('p', { class: 'lead error' }, sentence));
    },
    /** Shows the result of the awaited message. The invocation is known after it has ended. */
    came(result: ResultSeen, invocations: readonly InvocationSeen[]): void {
      if (result.messageId !== awaited) return;
      const invocation = invocations.find(({ number }) => number === result.invocation);
      if (invocation !== undefined || Date.now() - result.at > INVOCATION_MS) awaited = undefined;
      place.replaceChildren(...partsOf(result, invocation));
    },
  };
}

function partsOf(result: ResultSeen, invocation: InvocationSeen | undefined): HTMLElement[] {
  const { messageId, isError, body, at, answeredMs } = result;
  const number = `#${count(result.invocation)}`;
  const how =
    invocation === undefined
      ? `It was in invocation ${number}, and was answered`
      : `It waited ${duration(invocation.at - (at - answeredMs))} for invocation ${number} of ` +
        `${things(invocation.records, 'message')}, and was answered`;
  const label = 'The whole answer';
  return [
    make('p', { class: isError ? 'lead error' : 'lead' }, essenceOf(body) ?? 'Answered.'),
    make('p', {}, `${how} ${duration(answeredMs)} after it was sent.`),
    make('p', { class: 'aside' }, `${invocation ? `${whyOf(invocation)} · ` : ''}message ${messageId}`),
    make('details', {}, make('summary', {}, label), block(label, prettyOf(body))),
  ];
}

/** Explains the size of a batch. */
export function whyOf({ batchSize, records, endedBecause, waitedMs }: InvocationSeen): string {
  return `${percent(records / batchSize)} of the batch size, as ${endedBecause} · oldest waited ${duration(waitedMs)}`;
}

/** Returns a short text for a result: its values, or its error. @returns undefined for a packed or truncated result */
export function essenceOf(body: string): string | undefined {
  try {
    const { code, error, outputs, predictions, result } = JSON.parse(body);
    if (code !== undefined) return `${code}: ${error}`;
    const named: Named[] | undefined = outputs?.map(({ name, data }: { name: string; data: unknown }) => [name, data]);
    const first = predictions?.length === 1 ? predictions[0] : predictions;
    return sureOf(named) ?? (named ? valuesOf(named) : formatted(result ?? first));
  } catch {
    return undefined;
  }
}

type Named = [name: string, value: unknown];

/** Returns the label of a single row and its probability, from the probabilities of all labels. */
function sureOf(outputs: readonly Named[] = []): string | undefined {
  const lists = outputs.map(([, data]) => (Array.isArray(data) ? data : []));
  const [label] = lists.find(({ length }) => length === 1) ?? [];
  const shares = lists.find((list) => list.length > 1 && Math.abs(list.reduce((all, one) => all + one, 0) - 1) < 0.001);
  return label === undefined || shares === undefined ? undefined : `${label}, ${percent(Math.max(...shares))} sure`;
}

const MAX_VALUES = 8;

function formatted(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  if (Array.isArray(value)) {
    const more = value.length > MAX_VALUES ? `, … ${count(value.length)} values` : '';
    return value.length === 1 ? formatted(value[0]) : `${value.slice(0, MAX_VALUES).map(formatted).join(', ')}${more}`;
  }
  if (typeof value === 'object' && value !== null) return valuesOf(Object.entries(value));
  return value === undefined ? undefined : String(value);
}

/** Formats values with their names. A single value has no name. */
function valuesOf(entries: readonly Named[]): string {
  if (entries.length === 1) return formatted(entries[0]?.[1]) ?? 'in binary';
  return entries.map(([name, value]) => `${name} ${formatted(value) ?? 'in binary'}`).join(' · ');
}

/**
 * Formats JSON text with line breaks, and with each array of plain values on one line. It returns other text unchanged.
 */
export function prettyOf(text: string): string {
  try {
    const pretty = JSON.stringify(JSON.parse(text), null, 2);
    // JSON strings contain no line breaks, so a line break after a bracket starts an array.
    return pretty.replace(/\[\n\s+([^[\]{}]*?)\n\s*\]/g, (_, values) => `[${values.replace(/\n\s+/g, ' ')}]`);
  } catch {
    return text;
  }
}
