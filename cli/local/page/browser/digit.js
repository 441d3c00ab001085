import { make } from './dom.js';

const SIDE = 8;
const FULL = 16;
/** Of the pen, in cells. */
const RADIUS = 1.15;

/**
 * A picture of 8 × 8 grey values, 0 to 16, to be drawn by mouse, finger or keyboard.
 *
 * @returns {{ readonly element: HTMLElement, values(): number[], set(values: readonly number[]): void }}
 */
export function createDigit() {
  const values = new Array(SIDE * SIDE).fill(0);
  let current = 0;
  const cells = values.map((_, index) =>
    make('div', { role: 'gridcell', class: 'cell', tabindex: index === 0 ? 0 : -1 }),
  );
  const rows = Array.from({ length: SIDE }, (_, row) =>
    make('div', { role: 'row' }, ...cells.slice(row * SIDE, (row + 1) * SIDE)),
  );
  const element = make(
    'div',
    { class: 'digit', role: 'grid', 'aria-label': 'Digit, 8 by 8', 'aria-describedby': 'digit-help' },
    ...rows,
  );

  /**
   * @param {number} index
   * @param {number} value
   */
  const put = (index, value) => {
    const cell = cells[index];
    if (cell === undefined) return;
    values[index] = value;
    cell.style.setProperty('--level', `${(100 * value) / FULL}%`);
    cell.setAttribute(
      'aria-label',
      `row ${Math.floor(index / SIDE) + 1}, column ${(index % SIDE) + 1}: ${value} of ${FULL}`,
    );
  };
  /** @param {number} index */
  const moveTo = (index) => {
    cells[current]?.setAttribute('tabindex', '-1');
    current = index;
    cells[current]?.setAttribute('tabindex', '0');
    cells[current]?.focus();
  };
  element.addEventListener('keydown', (event) => {
    const next = nextCell(event.key, current);
    if (next !== undefined) moveTo(next);
    else if (event.key === ' ') put(current, values[current] === 0 ? FULL : 0);
    else return;
    event.preventDefault();
  });
  const draw = (/** @type {PointerEvent} */ event) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * SIDE;
    const y = ((event.clientY - top) / height) * SIDE;
    for (const index of values.keys()) {
      const distance = Math.hypot((index % SIDE) + 0.5 - x, Math.floor(index / SIDE) + 0.5 - y);
      const ink = Math.round(FULL * Math.min(1, Math.max(0, 1.5 * (1 - distance / RADIUS))));
      if (ink > values[index]) put(index, ink);
    }
  };
  element.addEventListener('pointerdown', (event) => {
    element.setPointerCapture(event.pointerId);
    draw(event);
  });
  element.addEventListener('pointermove', (event) => {
    if (event.buttons === 1) for (const each of event.getCoalescedEvents?.() ?? [event]) draw(each);
  });
  for (const index of values.keys()) put(index, 0);
  return {
    element,
    values: () => [...values],
    set: (given) => {
      for (const index of values.keys()) put(index, given[index] ?? 0);
    },
  };
}

/**
 * @param {string} key
 * @param {number} from
 */
function nextCell(key, from) {
  const column = from % SIDE;
  if (key === 'ArrowLeft') return column > 0 ? from - 1 : from;
  if (key === 'ArrowRight') return column < SIDE - 1 ? from + 1 : from;
  if (key === 'ArrowUp') return from >= SIDE ? from - SIDE : from;
  if (key === 'ArrowDown') return from < SIDE * (SIDE - 1) ? from + SIDE : from;
  if (key === 'Home') return from - column;
  if (key === 'End') return from - column + SIDE - 1;
  return undefined;
}
