import { make } from './dom.js';
import { timeOf } from './format.js';

/** @typedef {import('./chartLines.js').SecondSeen} SecondSeen */
/** @typedef {import('./chartLines.js').Chart} Chart */

const TABLE_SECONDS = 15;

/**
 * The chart in words.
 *
 * @param {Chart} chart
 * @param {readonly SecondSeen[]} seconds
 */
export function essenceOf({ lines, spell }, seconds) {
  const parts = lines.map(({ name, of }) => {
    const values = seconds.map(of).filter((value) => value !== null);
    const last = values.at(-1);
    return last === undefined
      ? `${name}: nothing yet`
      : `${name}: ${spell(last)}, at most ${spell(Math.max(...values))}`;
  });
  return parts.join('; ');
}

/**
 * The chart as a table of its last seconds, the newest first.
 *
 * @param {HTMLElement} place
 * @param {Chart} chart
 * @param {readonly SecondSeen[]} seconds
 */
export function fillTable(place, { title, lines, spell }, seconds) {
  const rows = seconds
    .slice(-TABLE_SECONDS)
    .toReversed()
    .map((second) => {
      const cells = lines
        .map(({ of }) => of(second))
        .map((value) => make('td', {}, value === null ? '–' : spell(value)));
      return make('tr', {}, make('th', { scope: 'row' }, timeOf(second.at * 1000)), ...cells);
    });
  const heads = ['Second', ...lines.map(({ name }) => name)].map((head) => make('th', { scope: 'col' }, head));
  place.replaceChildren(
    make(
      'table',
      {},
      make('caption', {}, `${title}, the last ${TABLE_SECONDS} seconds`),
      make('thead', {}, make('tr', {}, ...heads)),
      make('tbody', {}, ...rows),
    ),
  );
}
