import { barOf } from './bar.js';
import { keepList, make } from './dom.js';
import { count, duration, figure, percent, things, timeOf } from './format.js';

/** @typedef {import('../wire.ts').InvocationSeen} InvocationSeen */
/** @typedef {import('../wire.ts').ClosedWords} ClosedWords */

/**
 * @param {HTMLElement} list
 * @returns {(state: import('./state.js').State) => void} shows them
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
      tableOf(invocation, closed),
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
function tableOf({ number, microBatches, runs, decodeMs, writeMs }, closed) {
  const heads = ['Micro-batch', 'Model', 'Rows', 'Run as', 'Padding', 'Closed because', 'Stack', 'Run', 'Encode'];
  const rows = microBatches.map((one, index) => {
    const runAs = one.paddedLength > 1 ? `${count(one.paddedRows)} × ${one.paddedLength}` : count(one.paddedRows);
    const cells = [
      `${one.model}/${one.version}`,
      count(one.rows),
      runAs,
      percent(one.paddingShare),
      closed.microBatch[one.closedBecause] ?? '',
      duration(one.stackMs),
      duration(one.runMs),
      duration(one.encodeMs),
    ];
    return make(
      'tr',
      {},
      make('th', { scope: 'row' }, count(index + 1)),
      ...cells.map((cell, column) => make('td', { class: column === 0 || column === 4 ? 'text' : undefined }, cell)),
    );
  });
  const others = runs - microBatches.length;
  const caption = `Micro-batches of invocation ${number}`;
  return make(
    'div',
    {},
    make(
      'p',
      { class: 'aside' },
      `Decoding took ${duration(decodeMs)}, writing ${duration(writeMs)}.${others > 0 ? ` The first ${microBatches.length} of ${count(runs)} micro-batches:` : ''}`,
    ),
    microBatches.length === 0
      ? ''
      : scrolling(
          caption,
          make(
            'table',
            {},
            make('caption', {}, caption),
            make(
              'thead',
              {},
              make(
                'tr',
                {},
                ...heads.map((head, column) =>
                  make('th', { scope: 'col', class: column === 1 || column === 5 ? 'text' : undefined }, head),
                ),
              ),
            ),
            make('tbody', {}, ...rows),
          ),
        ),
  );
}

/**
 * What may be wider than the page scrolls within itself, by keyboard too.
 *
 * @param {string} label
 * @param {HTMLElement} content
 */
export function scrolling(label, content) {
  return make('div', { class: 'scroll', role: 'region', 'aria-label': label, tabindex: 0 }, content);
}
