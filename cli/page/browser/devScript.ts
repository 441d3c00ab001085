import { count, duration, figure, percent } from '../../format.ts';
import type { Chart, InvocationSeen, JobSeen, ResultSeen, State } from '../wire.ts';
import { createAnswer, essenceOf, prettyOf, whyOf } from './answer.ts';
import { createFigure } from './charts.ts';
import { block, byId, definitions, keepList, make, setText, things, timeOf } from './dom.ts';
import { offerWays, post } from './send.ts';

const POLL_MS = 1_000;
/** Interval while the page awaits an answer. */
const SOON_MS = 150;

let state: State | undefined;
const answer = createAnswer(byId('answer'));
const [drawLatency, drawFill] = [createFigure(byId('latency')), createFigure(byId('fill'))];
void poll();

async function poll(): Promise<void> {
  try {
    take(await post('/state', { awaited: answer.awaited() }));
    sayConnection(true);
  } catch {
    sayConnection(false);
  }
  setTimeout(() => void poll(), answer.awaited() !== undefined ? SOON_MS : POLL_MS);
}

function take(newest: State): void {
  // The models were loaded again, or the stack restarted with other ones.
  if (state !== undefined && JSON.stringify(newest.models) !== JSON.stringify(state.models)) location.reload();
  if (state === undefined) {
    byId('main').hidden = false;
    offerWays(newest.models, answer.sent, answer.refused);
    setText(byId('endpoint'), newest.endpoint);
  }
  state = newest;
  show(newest);
  if (newest.awaited !== undefined) answer.came(newest.awaited, newest.invocations);
}

function show({ batchSize, windowSeconds, warnings, ...newest }: State): void {
  const { queues, totals, seconds, invocations, jobs, results } = newest;
  const wait = windowSeconds === 0 ? 'without a window' : `or what arrives in ${windowSeconds} s`;
  setText(byId('batching'), `batches of up to ${things(batchSize, 'message')}, ${wait}`);
  byId('warnings').replaceChildren(...warnings.map((warning) => make('li', {}, warning)));
  const last = seconds.slice(-RATE_SECONDS).reduce((all, { answered }) => all + answered, 0) / RATE_SECONDS;
  byId('facts').replaceChildren(
    definitions([
      ['Waiting', make('strong', {}, count(queues.waiting)), ` ${count(queues.inFlight)} in flight`],
      ['Answered', make('strong', {}, `${figure(last)}/s`), ` ${count(totals.answered)} in all`],
      ['Errors', alarming(sum(totals.errors)), ` ${count(sum(totals.retries))} retried`],
      ['Dead letters', alarming(queues.deadLetters), ' on their queue'],
    ]),
  );
  const x = { values: seconds.map(({ at }) => at) };
  drawLatency(
    chartOf('Queue to result', x, 'duration', {
      p50: seconds.map(({ p50Ms }) => p50Ms),
      p99: seconds.map(({ p99Ms }) => p99Ms),
    }),
  );
  const fill = seconds.map(({ records, room }) => (room === 0 ? null : records / room));
  drawFill(chartOf('Fill', x, 'percent', { 'of the batch size': fill }));
  keepList(byId('invocation-list'), invocations, ({ number }) => `${number}`, invocationItem);
  const codes = Object.entries({ ...totals.errors, ...totals.retries }).map(([code, many]) => `${code} ${count(many)}`);
  setText(byId('codes'), codes.join(', '));
  keepList(byId('result-list'), results, ({ messageId, at }) => `${messageId} ${at}`, resultItem);
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

function chartOf(
  title: string,
  x: Chart['x'],
  format: 'duration' | 'percent',
  lines: Readonly<Record<string, readonly (number | null)[]>>,
): Chart {
  const text = format === 'duration' ? duration : percent;
  const said = Object.entries(lines).map(([name, values]) => {
    const known = values.filter((value) => value !== null);
    const newest = known.at(-1);
    const words = newest === undefined ? 'nothing yet' : `${text(newest)}, at most ${text(Math.max(...known))}`;
    return { name, values, value: newest === undefined ? '–' : text(newest), words: `${name}: ${words}` };
  });
  return { title, words: said.map(({ words }) => words).join('; '), x, y: { format }, lines: said };
}

function invocationItem(invocation: InvocationSeen): HTMLElement {
  const { number, at, records, durationMs, errors, retried } = invocation;
  const wrong = [
    ...(errors > 0 ? [things(errors, 'error')] : []),
    ...(retried > 0 ? [`${count(retried)} to be retried`] : []),
  ];
  const what = ` ${timeOf(at)} · ${things(records, 'message')}, ${duration(durationMs)}`;
  return make(
    'li',
    {},
    make('span', {}, make('b', {}, `#${count(number)}`), what),
    make('span', { class: 'aside' }, whyOf(invocation)),
    ...(wrong.length === 0 ? [] : [make('span', { class: 'error' }, wrong.join(', '))]),
  );
}

function resultItem({ messageId, at, invocation, isError, body, characters }: ResultSeen): HTMLElement {
  const cut = characters > body.length ? `, the first ${count(body.length)} of ${count(characters)} characters` : '';
  const head = make('span', {}, `${timeOf(at)} · ${messageId} · invocation #${count(invocation)}${cut}`);
  const essence = make('span', { class: isError ? 'preview error' : 'preview' }, essenceOf(body) ?? body.slice(0, 200));
  const whole = block(`${isError ? 'Error' : 'Result'} of ${messageId}`, prettyOf(body));
  return make('li', {}, make('details', {}, make('summary', {}, head, essence), whole));
}

function jobItem({ job, input }: JobSeen): HTMLElement {
  const progress = make('progress', { 'aria-label': `Pieces of ${input}` });
  const name = make('span', {}, make('b', {}, input), ' ', make('span', { class: 'aside' }, job));
  return make('li', { class: 'job' }, name, progress, make('span'));
}

function showJob(job: JobSeen): void {
  const [, progress, words] = document.querySelector(`[data-key="${job.job}"]`)?.children ?? [];
  if (!(progress instanceof HTMLProgressElement) || words === undefined) return;
  const { done = 0, all } = job.pieces ?? {};
  // The size of a compressed file is unknown until its end.
  if (all === undefined && job.state === 'running') progress.removeAttribute('value');
  else progress.value = job.state === 'done' ? 1 : done / (all || 1);
  const isWrong = job.state === 'failed' || job.givenUp > 0 || Object.keys(job.errors ?? {}).length > 0;
  words.className = isWrong ? 'error' : 'aside';
  setText(words, standing(job));
}

function standing({ job, state: how, pieces, rows = 0, errors = {}, givenUp, code, message }: JobSeen): string {
  const { done = 0, all } = pieces ?? {};
  const of = all === undefined ? '' : ` of ${count(all)}`;
  const scored = pieces ? `${count(done)}${of} pieces scored` : 'being planned';
  if (how === 'running') return scored;
  if (how === 'cancelled') return `cancelled, ${scored}; batchscore job resume ${job} goes on`;
  if (how === 'failed') return `${code ?? 'failed'}: ${message ?? 'no reason was given'}`;
  const codes = Object.entries(errors).map(([name, many]) => `${name} ${count(many)}`);
  const wrong = givenUp > 0 ? [...codes, `${things(givenUp, 'piece')} given up`] : codes;
  return `done: ${[things(rows, 'row'), ...wrong].join(', ')}; batchscore job fetch ${job} has the results`;
}

/** Shows whether the stack answers, and greys old values if it does not. */
function sayConnection(isOpen: boolean): void {
  setText(byId('connection'), isOpen ? 'Live:' : 'No connection:');
  const root = document.documentElement;
  if (isOpen !== root.classList.contains('gone')) return;
  root.classList.toggle('gone', !isOpen);
  for (const control of document.querySelectorAll('button, input, textarea'))
    control.toggleAttribute('disabled', !isOpen);
  byId('gone').hidden = isOpen;
  setText(byId('gone-since'), state === undefined ? '' : ` The values below are from ${timeOf(Date.now())}.`);
}
