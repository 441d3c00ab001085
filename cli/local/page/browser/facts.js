import { make, setText } from './dom.js';
import { count, duration, figure } from './format.js';

/** @typedef {import('./state.js').State} State */

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
