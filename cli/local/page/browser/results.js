import { keepList, make } from './dom.js';
import { essenceOf } from './essence.js';
import { count, timeOf } from './format.js';
import { prettyOf } from './pretty.js';
import { keyOfResult } from './state.js';

/** @typedef {import('../wire.ts').ResultSeen} ResultSeen */

/**
 * @param {{ readonly results: HTMLElement, readonly errors: HTMLElement, readonly codes: HTMLElement }} places
 * @returns {(state: import('./state.js').State) => void} shows them
 */
export function createResults({ results, errors, codes }) {
  let shownCodes = '';
  return (state) => {
    keepList(results, state.results, keyOfResult, (result) => itemOf(result, 'Result'));
    keepList(errors, state.errors, keyOfResult, (result) => itemOf(result, 'Error'));
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
function itemOf({ messageId, at, invocation, isLoad, body, characters }, what) {
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
  const rows = lines.map(({ code, many, what }) =>
    make(
      'tr',
      {},
      make('th', { scope: 'row', class: 'text' }, make('code', {}, code)),
      make('td', {}, count(many)),
      make('td', { class: 'text' }, what),
    ),
  );
  return make('table', {}, make('caption', {}, 'Codes since the stack was started'), make('tbody', {}, ...rows));
}
