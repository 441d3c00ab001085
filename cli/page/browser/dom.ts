import { count } from '../../format.ts';
import type { TableShown } from '../wire.ts';

type Attributes = Readonly<Record<string, string | number | boolean | undefined | ((event: Event) => void)>>;

/** Keeps each number on one line with its unit. */
function unbroken(text: string): string {
  return text.replace(/(?<=\d) (?=(?:%|ms|s|MB|MiB)(?!\w))/g, '\u00a0');
}

/** Creates an element with attributes, listeners (`onclick`, …) and children. It never parses text as HTML. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...children.map((child) => (typeof child === 'string' && name !== 'pre' ? unbroken(child) : child)));
  return element;
}

/** @param type type that the element must have. @default any element */
export function byId(id: string): HTMLElement;
export function byId<E extends HTMLElement>(id: string, type: new () => E): E;
export function byId(id: string, type: new () => HTMLElement = HTMLElement): HTMLElement {
  const element = document.getElementById(id);
  if (element instanceof type) return element;
  throw new Error(`expected an element ${id}, a ${type.name}`);
}

/** Sets a text if it differs, so that the browser does not announce or draw an equal text again. */
export function setText(element: Element, text: string): void {
  const shown = unbroken(text);
  if (element.textContent !== shown) element.textContent = shown;
}

/** Formats a count with its noun, such as 1 row or 12,345 rows. */
export function things(many: number, one: string, more = `${one}s`): string {
  return `${count(many)} ${many === 1 ? one : more}`;
}

/** Creates a list of names and values: pairs of `dt` and `dd`. */
export function definitions(pairs: readonly (readonly [name: string, ...value: (Node | string)[]])[]) {
  const items = pairs.map(([name, ...value]) => make('div', {}, make('dt', {}, name), make('dd', {}, ...value)));
  return make('dl', { class: 'facts' }, ...items);
}

/** Creates a block of preformatted text that users copy or scroll. */
export function block(label: string, text: string): HTMLElement {
  return make('pre', { role: 'region', tabindex: 0, 'aria-label': label }, text);
}

/** Creates a table that scrolls by itself on a narrow page. The first column names the rows. */
export function table({ caption, heads, rows, chosen }: TableShown) {
  const line = ([first = '', ...rest]: readonly string[], index: number): HTMLElement => {
    const name = index === chosen ? `▸ ${first} (recommended)` : first;
    const cells = rest.map((cell) => make('td', {}, cell));
    return make('tr', index === chosen ? { class: 'chosen' } : {}, make('th', { scope: 'row' }, name), ...cells);
  };
  const head = make('thead', {}, make('tr', {}, ...heads.map((text) => make('th', { scope: 'col' }, text))));
  const body = make('tbody', {}, ...rows.map(line));
  return make(
    'div',
    { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0 },
    make('table', {}, head, body),
  );
}

/** Updates a list's elements from items, newest first. Elements that are open or have the focus stay in place. */
export function keepList<T>(
  list: HTMLElement,
  items: readonly T[],
  keyOf: (item: T) => string,
  create: (item: T) => HTMLElement,
): void {
  const there = new Map([...list.children].map((child) => [(child as HTMLElement).dataset.key, child]));
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

export function timeOf(at: number): string {
  return new Date(at).toLocaleTimeString('en-GB');
}
