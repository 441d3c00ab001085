import { make } from './dom.js';

/** @typedef {import('../wire.ts').InvocationSeen} InvocationSeen */

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
