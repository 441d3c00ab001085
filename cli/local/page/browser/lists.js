import { count, duration, figure, keepList, make, percent, setText, tableOf, things, timeOf } from './common.js';

/** @typedef {import('../wire.ts').InvocationSeen} InvocationSeen */
/** @typedef {import('../wire.ts').ClosedWords} ClosedWords */

/**
 * @param {HTMLElement} list
 * @returns {(state: import('../wire.ts').State) => void} shows them
 */
export function createInvocations(list) {
  return ({ invocations, closed }) => {
    keepList(
      list,
      invocations,
      ({ number }) => String(number),
      (invocation) => itemOf(invocation, closed),
    );
    const most = Math.max(1, ...invocations.map(({ paddedRows }) => paddedRows));
    for (const invocation of invocations) {
      const bar = list.querySelector(`[data-key="${invocation.number}"] .bar`);
      // Bars are as wide as their rows beside each other's, and never too narrow to be seen.
      if (bar instanceof HTMLElement) bar.style.width = `${Math.max(2, (100 * invocation.paddedRows) / most)}%`;
    }
  };
}

/**
 * @param {InvocationSeen} invocation
 * @param {ClosedWords} closed
 */
function itemOf(invocation, closed) {
  const { number, at, records, runs, durationMs } = invocation;
  const what = `${things(records, 'message')} in ${things(runs, 'micro-batch', 'micro-batches')}, ${duration(durationMs)}`;
  const head = make('span', {}, make('b', {}, `#${count(number)}`), ` ${timeOf(at)} · ${what}`);
  return make(
    'li',
    {},
    make(
      'details',
      {},
      make(
        'summary',
        {},
        head,
        make('span', { class: 'track' }, barOf(invocation)),
        make('span', { class: 'quiet' }, whyOf(invocation, closed)),
        make('span', { class: 'quiet' }, stagesOf(invocation)),
      ),
      microBatchesOf(invocation, closed),
    ),
  );
}

/**
 * What its stages took together.
 *
 * @param {InvocationSeen} invocation
 */
function stagesOf({ microBatches, decodeMs, writeMs }) {
  /** @param {'stackMs' | 'runMs' | 'encodeMs'} stage */
  const sum = (stage) => microBatches.reduce((all, one) => all + one[stage], 0);
  const stages = {
    decode: decodeMs,
    stack: sum('stackMs'),
    run: sum('runMs'),
    encode: sum('encodeMs'),
    write: writeMs,
  };
  const spelled = Object.entries(stages).map(([name, ms]) => `${name} ${figure(ms)}`);
  return `${spelled.join(' · ')} ms`;
}

/**
 * Why it was called with so many, and what became of them.
 *
 * @param {InvocationSeen} invocation
 * @param {ClosedWords} closed
 */
export function whyOf(invocation, closed) {
  const { batchSize, records, closedBecause, waitedMs, rows, paddedRows, errors, retried, cameBefore } = invocation;
  return [
    `${percent(records / batchSize)} of the batch size, as ${closed.batch[closedBecause]}`,
    `oldest waited ${duration(waitedMs)}`,
    ...(paddedRows > rows ? [`${percent(1 - rows / paddedRows)} of the rows are padding`] : []),
    ...(errors > 0 ? [things(errors, 'error')] : []),
    ...(retried > 0 ? [`${count(retried)} to be retried`] : []),
    ...(cameBefore > 0 ? [`${count(cameBefore)} came before`] : []),
  ].join(' · ');
}

/**
 * @param {InvocationSeen} invocation
 * @param {ClosedWords} closed
 */
function microBatchesOf({ number, microBatches, runs, decodeMs, writeMs }, closed) {
  const heads = ['Micro-batch', 'Model', 'Rows', 'Run as', 'Padding', 'Closed because', 'Stack', 'Run', 'Encode'];
  const rows = microBatches.map((one, index) => [
    count(index + 1),
    `${one.model}/${one.version}`,
    count(one.rows),
    one.paddedLength > 1 ? `${count(one.paddedRows)} × ${one.paddedLength}` : count(one.paddedRows),
    percent(one.paddingShare),
    closed.microBatch[one.closedBecause] ?? '',
    duration(one.stackMs),
    duration(one.runMs),
    duration(one.encodeMs),
  ]);
  const others = runs - rows.length;
  const caption = `Micro-batches of invocation ${number}`;
  const note = others > 0 ? ` The first ${rows.length} of ${count(runs)} micro-batches:` : '';
  const took = `Decoding took ${duration(decodeMs)}, writing ${duration(writeMs)}.${note}`;
  const table = rows.length === 0 ? '' : scrolling(caption, tableOf(caption, heads, rows, [1, 5]));
  return make('div', {}, make('p', { class: 'aside' }, took), table);
}

/**
 * What may be wider than the page scrolls within itself, by keyboard too.
 *
 * @param {string} label
 * @param {HTMLElement} content
 */
function scrolling(label, content) {
  return make('div', { class: 'scroll', role: 'region', 'aria-label': label, tabindex: 0 }, content);
}

/** @typedef {import('../wire.ts').ResultSeen} ResultSeen */

/**
 * @param {{ readonly results: HTMLElement, readonly errors: HTMLElement, readonly codes: HTMLElement }} places
 * @returns {(state: import('../wire.ts').State) => void} shows them
 */
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
    codes.replaceChildren(codesOf(state.totals));
  };
}

/**
 * @param {ResultSeen} result
 * @param {string} what
 */
function resultItem({ messageId, at, invocation, isLoad, body, characters }, what) {
  const shown = prettyOf(body);
  const cut = characters > body.length ? `, the first ${count(body.length)} of ${count(characters)} characters` : '';
  return make(
    'li',
    {},
    make(
      'details',
      {},
      make(
        'summary',
        {},
        make('span', {}, `${timeOf(at)} · invocation #${count(invocation)}${isLoad ? ' · load' : ''}${cut}`),
        make('span', { class: 'preview' }, essenceOf(body) ?? body.slice(0, 200)),
      ),
      make('pre', { role: 'region', tabindex: 0, 'aria-label': `${what} of ${messageId}` }, shown),
    ),
  );
}

/** @param {import('../wire.ts').TotalsSeen} totals */
function codesOf({ errors, retries }) {
  const lines = [
    ...Object.entries(errors).map(([code, many]) => ({ code, many, what: 'answered with it' })),
    ...Object.entries(retries).map(([code, many]) => ({ code, many, what: 'handed back' })),
  ];
  if (lines.length === 0) return make('p', { class: 'aside' }, 'None since the stack was started.');
  const rows = lines.map(({ code, many, what }) => [make('code', {}, code), count(many), what]);
  return tableOf('Codes since the stack was started', ['Code', 'Times', 'What became of them'], rows, [0, 2]);
}

/** @typedef {import('../wire.ts').ModelSeen} ModelSeen */

const KNOWN_BY = {
  proved: 'independent: proved when the model was loaded',
  trusted: 'taken for independent, as its config.json says',
  unproven: 'not proved independent yet',
  dependent: 'dependent on each other',
};
const RUN = {
  together: 'requests share runs',
  proving: 'requests run alone until enough of them were compared',
  alone: 'requests run alone',
};

/**
 * @param {HTMLElement} place
 * @returns {(state: import('../wire.ts').State) => void} shows them
 */
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
  const {
    name,
    version,
    inputs,
    outputs,
    independence,
    batching,
    maxBatchRows,
    allowedSizes,
    raggedAxis,
    hasTransform,
  } = model;
  const verdict = `${KNOWN_BY[independence]}; ${RUN[batching]}`;
  const lines = [
    ['Inputs', inputs.map(signatureOf).join(', ')],
    ['Outputs', outputs.map(signatureOf).join(', ')],
    ['Rows', verdict],
    ['Largest run', `${maxBatchRows} rows${allowedSizes.length > 0 ? `, at ${allowedSizes.join(', ')}` : ''}`],
    ...(raggedAxis === undefined ? [] : [['Ragged axis', raggedAxis]]),
    ...(hasTransform ? [['Transform', 'code of its own before and after the model']] : []),
  ];
  return make(
    'article',
    {},
    make('h3', {}, `${name} `, make('span', { class: 'version' }, `version ${version}`)),
    make(
      'dl',
      { class: 'about' },
      ...lines.map(([term = '', text = '']) => make('div', {}, make('dt', {}, term), make('dd', {}, text))),
    ),
  );
}

/** @param {import('../wire.ts').TensorSeen} tensor */
function signatureOf({ name, datatype, shape }) {
  return `${name} ${datatype} [${shape.join(', ')}]`;
}

/** @typedef {import('../wire.ts').State} State */

const RATE_SECONDS = 10;

/** @type {readonly { readonly name: string, readonly of: (state: State) => readonly [string, string] }[]} */
const FACTS = [
  {
    name: 'Waiting',
    of: ({ queues }) => [
      queues === undefined ? '–' : count(queues.waiting),
      queues === undefined || queues.waiting === 0 ? 'on the queue' : `oldest about ${duration(queues.oldestMs)}`,
    ],
  },
  {
    name: 'In flight',
    of: ({ queues }) => [queues === undefined ? '–' : count(queues.inFlight), 'received, not deleted'],
  },
  {
    name: 'Answered',
    of: ({ seconds, totals }) => {
      const last = seconds.slice(-RATE_SECONDS);
      const perSecond = last.reduce((sum, { answered }) => sum + answered, 0) / RATE_SECONDS;
      return [`${figure(perSecond)}/s`, `${count(totals.answered)} in all`];
    },
  },
  {
    name: 'Queue to result',
    of: ({ seconds }) => {
      const last = seconds.findLast(({ p50Ms }) => p50Ms !== null);
      if (last === undefined || last.p50Ms === null || last.p99Ms === null) return ['–', 'nothing answered yet'];
      return [duration(last.p50Ms), `p50; p99 ${duration(last.p99Ms)}`];
    },
  },
  { name: 'Errors', of: ({ totals }) => [count(sum(totals.errors)), 'answered with a code'] },
  { name: 'Retried', of: ({ totals }) => [count(sum(totals.retries)), 'went back to the queue'] },
  {
    name: 'Dead letters',
    of: ({ queues }) => [queues === undefined ? '–' : count(queues.deadLetters), 'on their queue'],
  },
  { name: 'Results', of: ({ queues }) => [queues === undefined ? '–' : count(queues.results), 'on the result queue'] },
];

/**
 * @param {HTMLElement} list
 * @returns {(state: State) => void} shows them
 */
export function createFacts(list) {
  const shown = FACTS.map(({ name }) => {
    const value = make('strong', {}, '–');
    const note = make('span');
    list.append(make('div', {}, make('dt', {}, name), make('dd', {}, value, note)));
    return { value, note };
  });
  return (state) => {
    for (const [index, { of }] of FACTS.entries()) {
      const [value, note] = of(state);
      const elements = shown[index];
      if (elements === undefined) continue;
      setText(elements.value, value);
      setText(elements.note, note);
    }
  };
}

/** @param {Readonly<Record<string, number>>} counts */
function sum(counts) {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}

/**
 * An invocation as a bar, a piece for each micro-batch, as wide as the rows it ran. What is padding is hatched. It is
 * told in words beside it.
 *
 * @param {InvocationSeen} invocation
 * @param {number} [marked] the piece to point at
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

/**
 * @param {number} rows
 * @param {number} paddingShare
 * @param {string} className
 */
function piece(rows, paddingShare, className) {
  const sent = make('span', { class: 'sent' });
  sent.style.width = `${100 * (1 - paddingShare)}%`;
  const element = make('span', { class: className }, sent);
  element.style.flexGrow = String(rows);
  return element;
}

/**
 * JSON text with line breaks, an array of plain values on one line; another text as it is.
 *
 * @param {string} text
 */
export function prettyOf(text) {
  try {
    return spell(JSON.parse(text), '');
  } catch {
    return text;
  }
}

/**
 * @param {unknown} value
 * @param {string} indent
 * @returns {string}
 */
function spell(value, indent) {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const deeper = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.every((one) => typeof one !== 'object' || one === null))
      return `[${value.map((one) => JSON.stringify(one)).join(', ')}]`;
    return `[\n${value.map((one) => deeper + spell(one, deeper)).join(',\n')}\n${indent}]`;
  }
  const lines = Object.entries(value).map(([key, one]) => `${deeper}${JSON.stringify(key)}: ${spell(one, deeper)}`);
  return `{\n${lines.join(',\n')}\n${indent}}`;
}

/**
 * A result in a few words; undefined where it says nothing in a few.
 *
 * @param {string} body
 * @returns {string | undefined}
 */
export function essenceOf(body) {
  try {
    const answer = JSON.parse(body);
    if (answer.code !== undefined) return `${answer.code}: ${answer.error}`;
    const [ticket] = answer.result?.tickets ?? [];
    if (ticket !== undefined) return `${ticket.label}, ${percent(ticket.confidence)} sure`;
    /** @param {string} name */
    const output = (name) => answer.outputs?.find((/** @type {{ name: string }} */ one) => one.name === name)?.data;
    const [label] = output('label') ?? [];
    const probability = output('probabilities')?.[label];
    if (probability !== undefined) return `${label}, ${percent(probability)} sure`;
  } catch {
    // A packed result, or one that was cut.
  }
  return undefined;
}
