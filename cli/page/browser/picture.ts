import type { ModelSeen } from '../wire.ts';
import { make } from './dom.ts';

const SIDE = 8;
const FULL = 16;
/** Radius of the pen, in cells, and the sharpness of its edge. */
const RADIUS = 1.3;
const SHARPNESS = 1.6;

/** Returns true for the model of handwritten digits. */
export function hasPicture({ name, inputs }: ModelSeen): boolean {
  return name === 'digits' && inputs.length === 1 && inputs[0]?.shape[1] === SIDE * SIDE;
}

/** Adds a picture of 8 × 8 grey values, 0 to 16, to a field of numbers. Drawing writes the numbers, and vice versa. */
export function pictureOf(field: HTMLElement, input: HTMLInputElement | HTMLTextAreaElement): HTMLElement {
  const cells = Array.from({ length: SIDE * SIDE }, () => make('div', { class: 'cell' }));
  const picture = make('div', { class: 'picture', 'aria-hidden': 'true' }, ...cells);
  const values = (): number[] => {
    const typed = input.value.split(',').map(Number);
    return cells.map((_, index) => typed[index] || 0);
  };
  const show = (): void => {
    for (const [index, value] of values().entries()) cells[index]?.style.setProperty('--level', `${value / FULL}`);
  };
  const write = (drawn: readonly number[]): void => {
    input.value = drawn.join(', ');
    input.dispatchEvent(new Event('input', { bubbles: true }));
  };
  input.addEventListener('input', show);
  drawOn(picture, (points) => {
    const inked = values().map((before, index) => {
      const [column, row] = [(index % SIDE) + 0.5, Math.floor(index / SIDE) + 0.5];
      const distance = Math.min(...points.map(([x, y]) => Math.hypot(column - x, row - y)));
      return Math.max(before, Math.round(FULL * Math.min(1, Math.max(0, SHARPNESS * (1 - distance / RADIUS)))));
    });
    write(inked);
  });
  show();
  const clear = make('button', { type: 'button', onclick: () => write(cells.map(() => 0)) }, 'Clear');
  return make('div', { class: 'drawn' }, make('div', {}, picture, clear), field);
}

type Point = readonly [x: number, y: number];

/** @param ink draws around points, given in cells */
function drawOn(element: HTMLElement, ink: (points: readonly Point[]) => void): void {
  let pen: Point | undefined;
  const draw = (event: PointerEvent): void => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const [x, y] = [((event.clientX - left) / width) * SIDE, ((event.clientY - top) / height) * SIDE];
    const [fromX, fromY] = pen ?? [x, y];
    const steps = Math.ceil(4 * Math.hypot(x - fromX, y - fromY)) || 1;
    const shares = Array.from({ length: steps }, (_, step) => (step + 1) / steps);
    ink(shares.map((share) => [fromX + (x - fromX) * share, fromY + (y - fromY) * share]));
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
}
