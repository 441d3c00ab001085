import {
  count,
  duration,
  essenceOf,
  figure,
  keepList,
  make,
  percent,
  prettyOf,
  setText,
  things,
  timeOf,
} from './common.js';

/** @typedef {import('../wire.ts').InvocationSeen} InvocationSeen */

/** @typedef {(state: import('../wire.ts').State) => void} Show shows what it is told */

/** @param {HTMLElement} list @returns {Show} */
export function createInvocations(list) {
  return ({ invocations }) => {
    keepList(list, invocations, ({ number }) => String(number), invocationItem);
    const most = Math.max(1, ...invocations.map(({ paddedRows }) => paddedRows));
    for (const invocation of invocations) {
      const bar = list.querySelector(`[data-key="${invocation.number}"] .bar`);
      // Bars are as wide as their rows beside each other's, and never too narrow to be seen.
      if (bar instanceof HTMLElement) bar.style.width = `${Math.max(2, (100 * invocation.paddedRows) / most)}%`;
    }
  };
}

/** What opens: a line or several, and more below them. @param {readonly HTMLElement[]} lines @param {HTMLElement} more */
function opening(lines, more) {
  return make('li', {}, make('details', {}, make('summary', {}, ...lines), more));
}

/** @param {InvocationSeen} invocation */
function invocationItem(invocation) {
  const { number, at, records, runs, durationMs } = invocation;
  const what = `${things(records, 'message')} in ${things(runs, 'micro-batch', 'micro-batches')}, ${duration(durationMs)}`;
  const lines = [
    make('span', {}, make('b', {}, `#${count(number)}`), ` ${timeOf(at)} · ${what}`),
    make('span', { class: 'track' }, barOf(invocation)),
    make('span', { class: invocation.errors > 0 ? 'error' : 'quiet' }, whyOf(invocation)),
    make('span', { class: 'quiet' }, stagesOf(invocation)),
  ];
  return opening(lines, microBatchesOf(invocation));
}

/** What its stages took together. @param {InvocationSeen} invocation */
function stagesOf({ microBatches, decodeMs, transformMs, writeMs }) {
  /** @param {'stackMs' | 'runMs' | 'encodeMs'} stage */
  const sum = (stage) => figure(microBatches.reduce((all, one) => all + one[stage], 0));
  const hooks = transformMs === 0 ? '' : ` · batch hooks ${figure(transformMs)} of it`;
  return `decode ${figure(decodeMs)} · stack ${sum('stackMs')} · run ${sum('runMs')} · encode ${sum('encodeMs')} · write ${figure(writeMs)} ms${hooks}`;
}

/** Why it was called with so many, and what became of them. @param {InvocationSeen} invocation */
export function whyOf(invocation) {
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

/** @param {InvocationSeen} invocation */
function microBatchesOf({ number, microBatches, runs }) {
  const heads = ['Micro-batch', 'Model', 'Rows', 'Run as', 'Padding', 'Closed because', 'Stack', 'Run', 'Encode'];
  const rows = microBatches.map((one, index) => [
    count(index + 1),
    `${one.model}/${one.version}`,
    count(one.rows),
    one.paddedLength > 1 ? `${count(one.paddedRows)} × ${one.paddedLength}` : count(one.paddedRows),
    percent(one.paddingShare),
    one.closedBecause,
    duration(one.stackMs),
    duration(one.runMs),
    duration(one.encodeMs),
  ]);
  if (rows.length === 0) return make('p', { class: 'aside' }, 'No micro-batch was run.');
  const shown = runs > rows.length ? `, the first ${rows.length} of ${count(runs)}` : '';
  const caption = `Micro-batches of invocation ${number}${shown}`;
  const head = make('thead', {}, make('tr', {}, ...heads.map((text) => make('th', { scope: 'col' }, text))));
  const lines = rows.map((cells) => make('tr', {}, ...cells.map((cell) => make('td', {}, cell))));
  const table = make('table', {}, make('caption', {}, caption), head, make('tbody', {}, ...lines));
  // What may be wider than the page scrolls within itself, by keyboard too.
  return make('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0 }, table);
}

/** @typedef {import('../wire.ts').ResultSeen} ResultSeen */

/** @param {Readonly<Record<'results' | 'errors' | 'codes', HTMLElement>>} places @returns {Show} */
export function createResults({ results, errors, codes }) {
  let shownCodes = '';
  /** @param {ResultSeen} result */
  const keyOf = ({ messageId, at }) => `${messageId} ${at}`;
  return (state) => {
    keepList(results, state.results, keyOf, (result) => resultItem(result, 'Result'));
    keepList(errors, state.errors, keyOf, (result) => resultItem(result, 'Error'));
    const now = JSON.stringify([state.totals.errors, state.totals.retries]);
    if (now === shownCodes) return;
    shownCodes = now;
    codes.replaceChildren(
      ...codesOf(state.totals.errors, 'answered with it'),
      ...codesOf(state.totals.retries, 'handed back to the queue'),
    );
  };
}

/** @param {ResultSeen} result @param {string} what */
function resultItem({ messageId, at, invocation, isLoad, isError, body, characters }, what) {
  const cut = characters > body.length ? `, the first ${count(body.length)} of ${count(characters)} characters` : '';
  const lines = [
    make('span', {}, `${timeOf(at)} · invocation #${count(invocation)}${isLoad ? ' · load' : ''}${cut}`),
    make('span', { class: isError ? 'preview error' : 'preview' }, essenceOf(body) ?? body.slice(0, 200)),
  ];
  const label = `${what} of ${messageId}`;
  return opening(lines, make('pre', { role: 'region', tabindex: 0, 'aria-label': label }, prettyOf(body)));
}

/** @param {Readonly<Record<string, number>>} counts @param {string} what */
function codesOf(counts, what) {
  return Object.entries(counts).map(([code, many]) => make('p', {}, make('code', {}, code), ` ${count(many)} ${what}`));
}

/** @typedef {import('../wire.ts').JobSeen} JobSeen */

/** @param {HTMLElement} list @param {(job: string) => void} cancel @returns {Show} */
export function createJobs(list, cancel) {
  /** @param {JobSeen} job */
  const item = ({ job, input }) =>
    make(
      'li',
      { class: 'job' },
      make('span', {}, make('b', {}, input), ' ', make('span', { class: 'quiet' }, job)),
      make('progress', { 'aria-label': `Pieces of ${input}` }),
      make('span'),
      make('button', { type: 'button', onclick: () => cancel(job), 'aria-label': `Cancel ${input}` }, 'Cancel'),
    );
  return ({ jobs }) => {
    keepList(list, jobs, ({ job }) => job, item);
    for (const job of jobs) {
      const [, progress, words, button] = list.querySelector(`[data-key="${job.job}"]`)?.children ?? [];
      if (!(progress instanceof HTMLProgressElement) || words === undefined) continue;
      const { done = 0, all } = job.pieces ?? {};
      // How much there is of a compressed file is known at its end.
      if (all === undefined && job.state === 'running') progress.removeAttribute('value');
      else progress.value = job.state === 'done' ? 1 : done / (all || 1);
      const isWrong = job.state === 'failed' || job.givenUp > 0 || Object.keys(job.errors ?? {}).length > 0;
      words.className = isWrong ? 'error' : 'quiet';
      setText(words, standing(job));
      if (button instanceof HTMLElement) button.hidden = job.state !== 'running';
    }
  };
}

/** @param {JobSeen} job */
function standing({ job, state, pieces, rows = 0, errors = {}, givenUp, code, message }) {
  const { done = 0, all } = pieces ?? {};
  const scored = pieces
    ? `${count(done)}${all === undefined ? '' : ` of ${count(all)}`} pieces scored`
    : 'being planned';
  if (state === 'running') return scored;
  if (state === 'cancelled') return `cancelled, ${scored}; batchscore job resume ${job} goes on`;
  if (state === 'failed') return `${code ?? 'failed'}: ${message ?? 'no reason was given'}`;
  const codes = Object.entries(errors).map(([name, many]) => `${name} ${count(many)}`);
  const wrong = givenUp > 0 ? [...codes, `${things(givenUp, 'piece')} given up`] : codes;
  return `done: ${[things(rows, 'row'), ...wrong].join(', ')}; batchscore job fetch ${job} has the results`;
}

/** @param {HTMLElement} list @returns {Show} */
export function createEvents(list) {
  /** @param {import('../wire.ts').EventSeen} event */
  const item = ({ at, title, body }) => {
    const line = [make('span', {}, `${timeOf(at)} · ${title}`)];
    return opening(line, make('pre', { role: 'region', tabindex: 0, 'aria-label': 'Event' }, prettyOf(body)));
  };
  return ({ events }) => keepList(list, events, ({ at, body }) => `${at} ${body}`, item);
}

/** @typedef {import('../wire.ts').ModelSeen} ModelSeen */

const RUN = {
  together: 'requests share runs',
  alone: 'requests run alone',
};

/** @param {HTMLElement} place @returns {Show} */
export function createModels(place) {
  let shown = '';
  return ({ models }) => {
    const now = JSON.stringify(models);
    if (now === shown) return;
    shown = now;
    place.replaceChildren(...models.map(cardOf));
  };
}

/** @param {ModelSeen} model */
function cardOf(model) {
  const { name, version, evidence, batching, maxBatchRows, allowedSizes, raggedAxis, hasTransform } = model;
  const lines = [
    ['Inputs', model.inputs.map(signatureOf).join(', ')],
    ['Outputs', model.outputs.map(signatureOf).join(', ')],
    ['Rows', `${RUN[batching]}: ${evidence}`],
    ['Largest run', `${maxBatchRows} rows${allowedSizes.length > 0 ? `, at ${allowedSizes.join(', ')}` : ''}`],
    ...(raggedAxis === undefined ? [] : [['Ragged axis', raggedAxis]]),
    ...(model.noSample === undefined ? [] : [['No sample', model.noSample]]),
    ...(hasTransform ? [['Transform', 'code of its own before and after the model']] : []),
  ];
  const items = lines.map(([term = '', text = '']) => make('div', {}, make('dt', {}, term), make('dd', {}, text)));
  const title = make('h3', {}, `${name} `, make('span', { class: 'version' }, `version ${version}`));
  return make('article', {}, title, make('dl', { class: 'about' }, ...items));
}

/** @param {import('../wire.ts').TensorSeen} tensor */
function signatureOf({ name, datatype, shape }) {
  return `${name} ${datatype} [${shape.join(', ')}]`;
}

/** @typedef {import('../wire.ts').State} State */

const RATE_SECONDS = 10;

/** @param {number | undefined} value */
const known = (value) => (value === undefined ? '–' : count(value));

/** @type {Readonly<Record<string, (state: State) => readonly [value: string, note: string]>>} */
const FACTS = {
  Waiting: ({ queues }) => [known(queues?.waiting), 'on the queue'],
  'In flight': ({ queues }) => [known(queues?.inFlight), 'received, not deleted'],
  Answered: ({ seconds, totals }) => {
    const inLast = seconds.slice(-RATE_SECONDS).reduce((all, { answered }) => all + answered, 0);
    return [`${figure(inLast / RATE_SECONDS)}/s`, `${count(totals.answered)} in all`];
  },
  'Queue to result': ({ seconds }) => {
    const { p50Ms = null, p99Ms = null } = seconds.findLast((one) => one.p50Ms !== null) ?? {};
    if (p50Ms === null || p99Ms === null) return ['–', 'nothing answered yet'];
    return [duration(p50Ms), `p50; p99 ${duration(p99Ms)}`];
  },
  Errors: ({ totals }) => [count(sum(totals.errors)), 'answered with a code'],
  Retried: ({ totals }) => [count(sum(totals.retries)), 'went back to the queue'],
  'Dead letters': ({ queues }) => [known(queues?.deadLetters), 'on their queue'],
  Results: ({ queues }) => [known(queues?.results), 'on the result queue'],
};

/** @param {HTMLElement} list @returns {Show} */
export function createFacts(list) {
  const shown = Object.entries(FACTS).map(([name, of]) => {
    const value = make('strong', {}, '–');
    const note = make('span');
    list.append(make('div', {}, make('dt', {}, name), make('dd', {}, value, note)));
    return { name, of, value, note };
  });
  const alarming = ['Errors', 'Dead letters'];
  return (state) => {
    for (const { name, of, value, note } of shown) {
      const [figures, words] = of(state);
      setText(value, figures);
      setText(note, words);
      value.classList.toggle('error', alarming.includes(name) && !/^[0–]/.test(figures));
    }
  };
}

/** @param {Readonly<Record<string, number>>} counts */
function sum(counts) {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}

/**
 * An invocation as a bar, a piece for each micro-batch, as wide as the rows it ran, what is padding hatched. Words beside
 * it say the same. @param {InvocationSeen} invocation @param {number} [marked] the piece to point at
 */
export function barOf({ microBatches, paddedRows }, marked) {
  const bar = make('span', { class: 'bar', 'aria-hidden': 'true' });
  let left = paddedRows;
  for (const [index, { paddedRows: run, paddingShare }] of microBatches.entries()) {
    bar.append(piece(run, paddingShare, index === marked ? 'piece marked' : 'piece'));
    left -= run;
  }
  if (left > 0) bar.append(piece(left, 0, 'piece others'));
  return bar;
}

/** @param {number} rows @param {number} paddingShare @param {string} className */
function piece(rows, paddingShare, className) {
  const sent = make('span', { class: 'sent' });
  sent.style.width = `${100 * (1 - paddingShare)}%`;
  const element = make('span', { class: className }, sent);
  element.style.flexGrow = String(rows);
  return element;
}
