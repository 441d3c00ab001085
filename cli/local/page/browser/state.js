/** @typedef {import('../wire.ts').Hello} Hello */
/** @typedef {import('../wire.ts').News} News */
/** @typedef {import('../wire.ts').Tick} Tick */

/**
 * All that the page shows, apart from what is being typed.
 *
 * @typedef {{ -readonly [Name in keyof Hello]: Hello[Name] }} State
 */

const SECONDS = 300;
const INVOCATIONS = 10;
const RESULTS = 6;

/**
 * @param {Hello} hello
 * @returns {State}
 */
export function stateOf(hello) {
  return {
    ...hello,
    invocations: hello.invocations.slice(-INVOCATIONS),
    results: hello.results.slice(-RESULTS),
    errors: hello.errors.slice(-RESULTS),
  };
}

/**
 * @param {State} state
 * @param {News} news
 */
export function addNews(state, { invocations, results, errors }) {
  const known = new Set(state.invocations.map(({ number }) => number));
  const fresh = invocations.filter(({ number }) => !known.has(number));
  state.invocations = [...state.invocations, ...fresh].slice(-INVOCATIONS);
  state.results = [...state.results, ...newOf(results, state.results)].slice(-RESULTS);
  state.errors = [...state.errors, ...newOf(errors, state.errors)].slice(-RESULTS);
}

/**
 * @param {State} state
 * @param {Tick} tick
 */
export function addTick(state, { seconds, queues, totals, batching }) {
  const last = state.seconds.at(-1)?.at ?? 0;
  state.seconds = [...state.seconds, ...seconds.filter(({ at }) => at > last)].slice(-SECONDS);
  state.queues = queues;
  state.totals = totals;
  state.models = state.models.map((model, index) => ({ ...model, batching: batching[index] ?? model.batching }));
}

/** @param {import('../wire.ts').ResultSeen} result */
export function keyOfResult({ messageId, at }) {
  return `${messageId} ${at}`;
}

/**
 * @param {readonly import('../wire.ts').ResultSeen[]} results
 * @param {readonly import('../wire.ts').ResultSeen[]} before
 */
function newOf(results, before) {
  const known = new Set(before.map(keyOfResult));
  return results.filter((result) => !known.has(keyOfResult(result)));
}
