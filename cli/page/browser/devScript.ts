import { count, duration, figure, percent } from '../../format.ts';
import type { AnswerSeen, Chart, Events, InvocationSeen, JobSeen, State } from '../wire.ts';
import { createFigure } from './charts.ts';
import { block, byId, definitions, make, setText, things } from './dom.ts';
import { offerWays, post, prettyOf } from './send.ts';

let state: State | undefined;
const answer = createAnswer(byId('answer'));
const drawn = [createFigure(byId('latency')), createFigure(byId('fill'))];

listen({ state: take, answer: answer.came }, sayConnection);

function take(newest: State): void {
  const before = state;
  state = newest;
  if (before === undefined) {
    offerWays(newest.models, answer.sent, answer.refused);
    setText(byId('endpoint'), newest.endpoint);
  }
  // The stack restarted with other models.
  else if (JSON.stringify(newest.models) !== JSON.stringify(before.models)) location.reload();
  show(newest);
}

function show({ batchSize, windowSeconds, queues, totals, seconds, invocations, results, errors, jobs }: State): void {
  setText(byId('batching'), `batches of up to ${things(batchSize, 'message')}, or those of ${windowSeconds} s`);
  const last = seconds.slice(-RATE_SECONDS).reduce((all, { answered }) => all + answered, 0) / RATE_SECONDS;
  byId('facts').replaceChildren(
    definitions('facts', [
      ['Waiting', make('strong', {}, count(queues?.waiting ?? 0)), ` ${count(queues?.inFlight ?? 0)} in flight`],
      ['Answered', make('strong', {}, `${figure(last)}/s`), ` ${count(totals.answered)} in all`],
      ['Errors', alarming(sum(totals.errors)), ` ${count(sum(totals.retries))} retried`],
      ['Dead letters', alarming(queues?.deadLetters ?? 0), ' on their queue'],
    ]),
  );
  for (const [index, chart] of chartsOf(seconds).entries()) drawn[index]?.(chart);
  keepList(byId('invocation-list'), invocations, ({ number }) => `${number}`, invocationItem);
  keepList(byId('result-list'), results, keyOf, (one) => resultItem(one, 'Result'));
  keepList(byId('error-list'), errors, keyOf, (one) => resultItem(one, 'Error'));
  const codes = Object.entries({ ...totals.errors, ...totals.retries }).map(([code, many]) => `${code} ${count(many)}`);
  setText(byId('codes'), codes.join(', '));
  keepList(byId('job-list'), jobs, ({ job }) => job, jobItem);
  for (const job of jobs) showJob(job);
}

const RATE_SECONDS = 10;

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}

function alarming(many: number): HTMLElement {
  return make('strong', many > 0 ? { class: 'error' } : {}, count(many));
}

function chartsOf(seconds: State['seconds']): Chart[] {
  const fill = seconds.map(({ records, room }) => (room === 0 ? null : records / room));
  const padding = seconds.map(({ rows, paddedRows }) => (paddedRows === 0 ? null : 1 - rows / paddedRows));
  const chart = (
    title: string,
    format: 'duration' | 'percent',
    lines: Readonly<Record<string, readonly (number | null)[]>>,
  ) => {
    const text = format === 'duration' ? duration : percent;
    const said = Object.entries(lines).map(([name, values]) => {
      const known = values.filter((value) => value !== null);
      const latest = values.at(-1) ?? null;
      const words =
        known.length === 0 ? 'nothing yet' : `${text(known.at(-1) ?? 0)}, at most ${text(Math.max(...known))}`;
      return { name, values, value: latest === null ? '–' : text(latest), words: `${name}: ${words}` };
    });
    const words = said.map((line) => line.words).join('; ');
    return { title, words, x: { values: seconds.map(({ at }) => at) }, y: { format }, lines: said };
  };
  return [
    chart('Queue to result', 'duration', {
      p50: seconds.map(({ p50Ms }) => p50Ms),
      p99: seconds.map(({ p99Ms }) => p99Ms),
    }),
    chart('Fill', 'percent', { 'of the batch size': fill, 'of rows run are padding': padding }),
  ];
}

/** Updates a list's elements from items, newest first. Elements that are open or have the focus stay in place. */
function keepList<T>(
  list: HTMLElement,
  items: readonly T[],
  keyOf: (item: T) => string,
  create: (item: T) => HTMLElement,
): void {
  const there = new Map([...list.children].map((child) => [(child as HTMLElement).dataset.key, child]));
  const keys = new Set(items.map(keyOf));
  for (const [key, child] of there) {
    const isRead = child.contains(document.activeElement) || child.querySelector('details[open]') !== null;
    if (!keys.has(key ?? '') && !isRead) child.remove();
  }
  for (const item of items) {
    const key = keyOf(item);
    if (there.has(key)) continue;
    const element = create(item);
    element.dataset.key = key;
    list.prepend(element);
  }
}

function invocationItem(invocation: InvocationSeen): HTMLElement {
  const { number, at, records, runs, durationMs, stages, errors } = invocation;
  const what = `${things(records, 'message')} in ${things(runs, 'micro-batch', 'micro-batches')}, ${duration(durationMs)}`;
  const parts = Object.entries(stages).map(([stage, ms]) => `${stage} ${figure(ms)}`);
  return make(
    'li',
    {},
    make('span', {}, make('b', {}, `#${count(number)}`), ` ${timeOf(at)} · ${what}`),
    make('span', { class: errors > 0 ? 'error' : 'quiet' }, whyOf(invocation)),
    make('span', { class: 'quiet' }, `${parts.join(' · ')} ms`),
  );
}

type Shown = State['results'][number];

function keyOf({ messageId, at }: Shown): string {
  return `${messageId} ${at}`;
}

function resultItem({ messageId, at, invocation, isError, body, characters }: Shown, what: string): HTMLElement {
  const cut = characters > body.length ? `, the first ${count(body.length)} of ${count(characters)} characters` : '';
  const head = make('span', {}, `${timeOf(at)} · invocation #${count(invocation)}${cut}`);
  const essence = make('span', { class: isError ? 'preview error' : 'preview' }, essenceOf(body) ?? body.slice(0, 200));
  return make(
    'li',
    {},
    make('details', {}, make('summary', {}, head, essence), block(`${what} of ${messageId}`, prettyOf(body))),
  );
}

function jobItem({ job, input }: JobSeen): HTMLElement {
  const cancel = async (): Promise<void> => {
    const why = await post('/cancel', { job }).then(
      () => '',
      (error: Error) => error.message,
    );
    setText(byId('job-refused'), why);
  };
  return make(
    'li',
    { class: 'job' },
    make('span', {}, make('b', {}, input), ' ', make('span', { class: 'quiet' }, job)),
    make('progress', { 'aria-label': `Pieces of ${input}` }),
    make('span'),
    make('button', { type: 'button', onclick: () => void cancel(), 'aria-label': `Cancel ${input}` }, 'Cancel'),
  );
}

function showJob(job: JobSeen): void {
  const [, progress, words, button] = document.querySelector(`[data-key="${job.job}"]`)?.children ?? [];
  if (!(progress instanceof HTMLProgressElement) || words === undefined) return;
  const { done = 0, all } = job.pieces ?? {};
  // The size of a compressed file is unknown until its end.
  if (all === undefined && job.state === 'running') progress.removeAttribute('value');
  else progress.value = job.state === 'done' ? 1 : done / (all || 1);
  const isWrong = job.state === 'failed' || job.givenUp > 0 || Object.keys(job.errors ?? {}).length > 0;
  words.className = isWrong ? 'error' : 'quiet';
  setText(words, standing(job));
  if (button instanceof HTMLElement) button.hidden = job.state !== 'running';
}

function standing({ job, state: how, pieces, rows = 0, errors = {}, givenUp, code, message }: JobSeen): string {
  const { done = 0, all } = pieces ?? {};
  const scored = pieces
    ? `${count(done)}${all === undefined ? '' : ` of ${count(all)}`} pieces scored`
    : 'being planned';
  if (how === 'running') return scored;
  if (how === 'cancelled') return `cancelled, ${scored}; batchscore job resume ${job} goes on`;
  if (how === 'failed') return `${code ?? 'failed'}: ${message ?? 'no reason was given'}`;
  const codes = Object.entries(errors).map(([name, many]) => `${name} ${count(many)}`);
  const wrong = givenUp > 0 ? [...codes, `${things(givenUp, 'piece')} given up`] : codes;
  return `done: ${[things(rows, 'row'), ...wrong].join(', ')}; batchscore job fetch ${job} has the results`;
}

/** Shows whether the connection is open, and greys old values if it is not. */
function sayConnection(isOpen: boolean): void {
  setText(byId('connection'), isOpen ? 'Live:' : '');
  const root = document.documentElement;
  if (isOpen !== root.classList.contains('gone')) return;
  root.classList.toggle('gone', !isOpen);
  for (const control of document.querySelectorAll('button, input, textarea'))
    control.toggleAttribute('disabled', !isOpen);
  byId('gone').hidden = isOpen;
  setText(byId('gone-since'), state === undefined ? '' : ` What is below is as it was at ${timeOf(Date.now())}.`);
}

/** Listens to the stack's events, and reconnects if the connection breaks. */
function listen(
  listeners: { readonly [Name in keyof Events]: (data: Events[Name]) => void },
  onConnection: (isOpen: boolean) => void,
): void {
  const source = new EventSource('/events');
  for (const [name, listener] of Object.entries(listeners)) {
    source.addEventListener(name, (event) => (listener as (data: unknown) => void)(JSON.parse(event.data)));
  }
  source.onopen = () => onConnection(true);
  source.onerror = () => {
    onConnection(false);
    // After the server refuses, a browser does not reconnect by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => listen(listeners, onConnection), 2000);
  };
}

function timeOf(at: number): string {
  return new Date(at).toLocaleTimeString('en-GB');
}

const MAX_ANSWERS = 16;

/** Creates the view of the latest answer and of its batch. */
function createAnswer(place: HTMLElement) {
  let awaited = '';
  /** Latest answers, including those for other pages. */
  const answers = new Map<string, AnswerSeen>();
  const show = (): void => {
    const answer = answers.get(awaited);
    place.replaceChildren(...(answer ? partsOf(answer) : [make('p', {}, 'Sent. It waits for its batch.')]));
  };
  return {
    sent(messageId: string): void {
      awaited = messageId;
      show();
    },
    refused(sentence: string): void {
      place.replaceChildren(make('p', { class: 'lead error' }, sentence));
    },
    /** Takes an answer. It may arrive before the ID of the sent message is known. */
    came(answer: AnswerSeen): void {
      answers.set(answer.messageId, answer);
      const [oldest = ''] = answers.keys();
      if (answers.size > MAX_ANSWERS) answers.delete(oldest);
      if (answer.messageId === awaited) show();
    },
  };
}

function partsOf({ result, invocation, microBatch, waitedMs, answeredMs }: AnswerSeen): HTMLElement[] {
  const number = count(invocation.number);
  const rode =
    microBatch === undefined
      ? `It was in invocation #${number}, and in none of its micro-batches.`
      : `It ran in invocation #${number} with ${sizeOf(microBatch)}, in ${duration(microBatch.runMs)} (closed: ${microBatch.closedBecause}).`;
  const times = `It waited ${duration(waitedMs)} for its invocation${answeredMs === undefined ? '.' : `, and was answered ${duration(answeredMs)} after it was sent.`}`;
  const lead =
    result === undefined
      ? make('p', { class: 'lead error' }, 'Not answered: it goes back to the queue.')
      : make('p', { class: result.isError ? 'lead error' : 'lead' }, essenceOf(result.body) ?? 'Answered.');
  const label = 'The whole answer';
  const whole = result && make('details', {}, make('summary', {}, label), block(label, prettyOf(result.body)));
  const why = make('p', { class: 'aside' }, whyOf(invocation));
  return [lead, make('p', {}, rode, ' ', times), why, ...(whole ? [whole] : [])];
}

function sizeOf({ rows, requests, paddingShare }: NonNullable<AnswerSeen['microBatch']>): string {
  const of = rows === requests ? things(rows, 'row') : `${things(rows, 'row')} of ${things(requests, 'request')}`;
  return paddingShare > 0 ? `${of} and ${percent(paddingShare)} padding` : of;
}

/** Explains the size of a batch, and describes its outcome. */
function whyOf(invocation: InvocationSeen): string {
  const { batchSize, records, endedBecause, waitedMs, rows, paddedRows, errors, retried, cameBefore } = invocation;
  return [
    `${percent(records / batchSize)} of the batch size, as ${endedBecause}`,
    `oldest waited ${duration(waitedMs)}`,
    ...(paddedRows > rows ? [`${percent(1 - rows / paddedRows)} of the rows are padding`] : []),
    ...(errors > 0 ? [things(errors, 'error')] : []),
    ...(retried > 0 ? [`${count(retried)} to be retried`] : []),
    ...(cameBefore > 0 ? [`${count(cameBefore)} came before`] : []),
  ].join(' · ');
}

/** Returns a short text for a result: its values, or its error. @returns undefined for a packed or truncated result */
function essenceOf(body: string): string | undefined {
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
