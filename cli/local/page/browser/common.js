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

/** @template {HTMLElement} [E=HTMLElement] @param {string} id @param {new () => E} [type] more than any element @returns {E} */
export function byId(id, type = /** @type {new () => E} */ (HTMLElement)) {
  const element = document.getElementById(id);
  if (element instanceof type) return element;
  throw new Error(`expected an element ${id}, a ${type.name}`);
}

/** Sets a text where it differs, so that nothing is announced or drawn anew. @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Keeps a list's elements in step with items, newest first. What is open, or has the focus, stays where it is.
 *
 * @template T @param {HTMLElement} list @param {readonly T[]} items oldest first
 * @param {(item: T) => string} keyOf @param {(item: T) => HTMLElement} create
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

/** 12,345 @param {number} value */
export function count(value) {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

/** Three digits that count, and all before the point. @param {number} value */
export function figure(value) {
  if (value === 0 || Math.abs(value) >= 100) return count(value);
  const decimals = Math.min(3, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString('en-US', { maximumFractionDigits: decimals });
}

/** Seconds where milliseconds would be long. @param {number} ms */
export function duration(ms) {
  return ms < 1000 ? `${figure(ms)}${SPACE}ms` : `${figure(ms / 1000)}${SPACE}s`;
}

/** @param {number} share from 0 to 1 */
export function percent(share) {
  return `${figure(100 * share)}${SPACE}%`;
}

/** @param {number} many @param {string} one @param {string} [more] */
export function things(many, one, more = `${one}s`) {
  return `${count(many)} ${many === 1 ? one : more}`;
}

/** The time of day. @param {number} at milliseconds since 1970 */
export function timeOf(at) {
  return new Date(at).toLocaleTimeString('en-GB');
}

/** JSON text with line breaks, an array of plain values on one line; another text as it is. @param {string} text */
export function prettyOf(text) {
  try {
    const pretty = JSON.stringify(JSON.parse(text), null, 2);
    // No string of JSON holds a line break, so one after a bracket begins an array.
    return pretty.replace(/\[\n\s+([^[\]{}]*?)\n\s*\]/g, (_, values) => `[${values.replace(/\n\s+/g, ' ')}]`);
  } catch {
    return text;
  }
}

/** A result in a few words: its values, or its error. @param {string} body @returns {string | undefined} undefined where it has none */
export function essenceOf(body) {
  try {
    const { code, error, outputs, predictions, result } = JSON.parse(body);
    if (code !== undefined) return `${code}: ${error}`;
    /** @type {[string, unknown][] | undefined} */
    const named = outputs?.map((/** @type {{ name: string, data: unknown }} */ { name, data }) => [name, data]);
    const first = predictions?.length === 1 ? predictions[0] : predictions;
    return sureOf(named) ?? (named ? valuesOf(named) : formatted(result ?? first));
  } catch {
    // A packed result, or one that was cut.
    return undefined;
  }
}

/** A label of one row, and how likely it is among the shares of all. @param {[string, unknown][]} [outputs] */
function sureOf(outputs = []) {
  const lists = outputs.map(([, data]) => (Array.isArray(data) ? data : []));
  const [label] = lists.find(({ length }) => length === 1) ?? [];
  const shares = lists.find((list) => list.length > 1 && Math.abs(list.reduce((all, one) => all + one, 0) - 1) < 0.001);
  return label === undefined || shares === undefined ? undefined : `${label}, ${percent(Math.max(...shares))} sure`;
}

const MAX_VALUES = 8;

/** @param {unknown} value @returns {string | undefined} */
function formatted(value) {
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  if (Array.isArray(value)) {
    const more = value.length > MAX_VALUES ? `, … ${count(value.length)} values` : '';
    return value.length === 1 ? formatted(value[0]) : `${value.slice(0, MAX_VALUES).map(formatted).join(', ')}${more}`;
  }
  if (typeof value === 'object' && value !== null) return valuesOf(Object.entries(value));
  return value === undefined ? undefined : String(value);
}

/** One value needs no name. @param {[string, unknown][]} entries */
function valuesOf(entries) {
  if (entries.length === 1) return formatted(entries[0]?.[1]) ?? 'in binary';
  return entries.map(([name, value]) => `${name} ${formatted(value) ?? 'in binary'}`).join(' · ');
}
