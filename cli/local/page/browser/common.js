/**
 * An element with its attributes, what it listens to (`onclick`, …), and what is in it. Text is text: nothing is parsed as HTML.
 *
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Readonly<Record<string, string | number | boolean | undefined | ((event: Event) => void)>>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...children);
  return element;
}

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`expected an element ${id}`);
  return element;
}

/**
 * Sets a text where it differs, so that nothing is announced or drawn anew.
 *
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Keeps a list's elements in step with items, newest first. What is open, or has the focus, stays where it is.
 *
 * @template T
 * @param {HTMLElement} list
 * @param {readonly T[]} items oldest first
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => HTMLElement} create
 */
export function keepList(list, items, keyOf, create) {
  const there = new Map([...list.children].map((child) => [/** @type {HTMLElement} */ (child).dataset.key, child]));
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

/** Between a number and its unit: a line is not broken there. */
const SPACE = '\u00a0';

/**
 * 12,345
 *
 * @param {number} value
 */
export function count(value) {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

/**
 * Three digits that count, and all before the point.
 *
 * @param {number} value
 */
export function figure(value) {
  if (value === 0 || Math.abs(value) >= 100) return count(value);
  const decimals = Math.min(3, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString('en-US', { maximumFractionDigits: decimals });
}

/**
 * Seconds where milliseconds would be long.
 *
 * @param {number} ms
 */
export function duration(ms) {
  return ms < 1000 ? `${figure(ms)}${SPACE}ms` : `${figure(ms / 1000)}${SPACE}s`;
}

/**
 * @param {number} share from 0 to 1
 */
export function percent(share) {
  return `${figure(100 * share)}${SPACE}%`;
}

/**
 * @param {number} many
 * @param {string} one
 * @param {string} [more]
 */
export function things(many, one, more = `${one}s`) {
  return `${count(many)} ${many === 1 ? one : more}`;
}

/**
 * The time of day.
 *
 * @param {number} at milliseconds since 1970
 */
export function timeOf(at) {
  return new Date(at).toLocaleTimeString('en-GB');
}

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
