import { make } from './dom.js';

const SIDE = 8;
const FULL = 16;
/** Of the pen, in cells, and how soft its edge is. */
const RADIUS = 1.3;
const SHARPNESS = 1.6;

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
  /** @type {readonly [number, number] | undefined} where the pen was, in cells */
  let pen;
  /**
   * @param {number} x
   * @param {number} y
   */
  const ink = (x, y) => {
    for (const [index, before] of values.entries()) {
      const distance = Math.hypot((index % SIDE) + 0.5 - x, Math.floor(index / SIDE) + 0.5 - y);
      const value = Math.round(FULL * Math.min(1, Math.max(0, SHARPNESS * (1 - distance / RADIUS))));
      if (value > before) put(index, value);
    }
  };
  const draw = (/** @type {PointerEvent} */ event) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * SIDE;
    const y = ((event.clientY - top) / height) * SIDE;
    const [fromX, fromY] = pen ?? [x, y];
    const steps = Math.ceil(4 * Math.hypot(x - fromX, y - fromY)) || 1;
    for (let step = 1; step <= steps; step++) {
      ink(fromX + ((x - fromX) * step) / steps, fromY + ((y - fromY) * step) / steps);
    }
    pen = [x, y];
  };
  element.addEventListener('pointerdown', (event) => {
    element.setPointerCapture(event.pointerId);
    pen = undefined;
    draw(event);
  });
  element.addEventListener('pointermove', (event) => {
    if (event.buttons === 1) draw(event);
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
