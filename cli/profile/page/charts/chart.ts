import type { Scale } from './scale.ts';

/** A chart of lines over two axes, without a size. */
export interface Chart {
  readonly x: Scale;
  readonly y: Scale;
  readonly series: readonly Series[];
  /** Values of x and of y that are marked across the chart. */
  readonly verticals?: readonly Line[];
  readonly horizontals?: readonly Line[];
  /** Points that stand out, with or without a name. */
  readonly points?: readonly Point[];
}

export interface Series {
  /** Stands at the end of the line. */
  readonly name: string;
  readonly values: readonly XY[];
  /** Whether each value is marked, as what was measured is. */
  readonly isMarked: boolean;
  /** Drawn back, as something to compare with. */
  readonly isReference?: boolean;
}

export interface XY {
  readonly x: number;
  readonly y: number;
}

export interface Line {
  readonly at: number;
  readonly label: string;
}

export interface Point extends XY {
  readonly label: string;
}

/** Pixels of an SVG that is shown in its own size, so that its texts are as large as those of the page. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

/** For a phone or a column, and for more room. */
export const SIZES = { narrow: { width: 328, height: 264 }, wide: { width: 508, height: 320 } } as const;

/** Pixels of text: nothing on the page is smaller than 11. */
export const FONT_PIXELS = 12;
/** Of an average character, a little on the safe side. */
const CHARACTER_PIXELS = 7.2;

export function textWidth(text: string): number {
  return Math.ceil(text.length * CHARACTER_PIXELS);
}

/** How series differ besides their colour. */
const STYLES = [
  { colour: 'var(--series-1)', dash: [], shape: 'circle' },
  { colour: 'var(--series-2)', dash: [7, 3], shape: 'square' },
  { colour: 'var(--series-3)', dash: [2, 3], shape: 'triangle-up' },
  { colour: 'var(--series-4)', dash: [9, 3, 2, 3], shape: 'diamond' },
  { colour: 'var(--series-5)', dash: [5, 2, 1, 2, 1, 2], shape: 'cross' },
  { colour: 'var(--series-6)', dash: [12, 4], shape: 'triangle-down' },
] as const;

const REFERENCE_STYLE = { colour: 'var(--muted)', dash: [1, 4], shape: 'circle' } as const;

export function styleOf({ isReference }: Pick<Series, 'isReference'>, index: number) {
  return isReference === true ? REFERENCE_STYLE : (STYLES[index % STYLES.length] ?? REFERENCE_STYLE);
}
