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
 * @template {HTMLElement} [E=HTMLElement]
 * @param {string} id
 * @param {new () => E} [type] more than any element
 * @returns {E}
 */
export function byId(id, type = /** @type {new () => E} */ (HTMLElement)) {
  const element = document.getElementById(id);
  if (element instanceof type) return element;
  throw new Error(`expected an element ${id}, a ${type.name}`);
}

/**
 * @param {string} caption
 * @param {readonly string[]} heads of the columns
 * @param {readonly (readonly (string | Node)[])[]} rows of cells, the first of which is the row's head
 * @param {readonly number[]} texts columns that are words, not numbers
 */
export function tableOf(caption, heads, rows, texts) {
  /** @param {number} column */
  const classOf = (column) => (texts.includes(column) ? 'text' : undefined);
  const top = heads.map((head, column) => make('th', { scope: 'col', class: classOf(column) }, head));
  const lines = rows.map(([head = '', ...cells]) => {
    const others = cells.map((cell, index) => make('td', { class: classOf(index + 1) }, cell));
    return make('tr', {}, make('th', { scope: 'row', class: classOf(0) }, head), ...others);
  });
  const body = make('tbody', {}, ...lines);
  return make('table', {}, make('caption', {}, caption), make('thead', {}, make('tr', {}, ...top)), body);
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
