import type { Mark, Spec } from 'vega';
import { FONT_PIXELS, type Size, textWidth } from './chart.ts';
import { axisBelow } from './lineChart.ts';
import { positionOf, type Scale } from './scale.ts';

/** Steps that follow each other: a bar each, which begins where the one before ends. */
export interface Steps {
  readonly x: Scale;
  readonly steps: readonly Step[];
}

export interface Step {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  /** Its length, in words. */
  readonly label: string;
}

const GAP = 8;
const MOST_ROW_PIXELS = 52;
const BAR_PIXELS = 22;
const BOTTOM = 42;

/** The bars in Vega's words. */
export function stepsChart({ x, steps }: Steps, size: Size): Spec {
  const left = GAP + Math.max(...steps.map(({ name }) => textWidth(name)));
  const right = GAP + textWidth(x.format(x.ticks.at(-1) ?? 0)) / 2;
  const row = Math.min(MOST_ROW_PIXELS, Math.floor((size.height - BOTTOM - GAP) / steps.length));
  const inner = { width: Math.floor(size.width - left - right), height: row * steps.length };
  return {
    ...inner,
    padding: { left, right: size.width - left - inner.width, top: GAP, bottom: size.height - GAP - inner.height },
    autosize: 'none',
    config: { text: { font: 'inherit', fontSize: FONT_PIXELS } },
    scales: [{ name: 'x', type: 'linear', domain: [...x.domain], range: 'width' }],
    axes: [{ ...axisBelow(x), grid: true, gridColor: 'var(--grid)' }],
    marks: steps.flatMap((step, index) => stepMarks(step, x, inner, (index + 0.5) * row)),
  };
}

function stepMarks({ name, from, to, label }: Step, scale: Scale, { width }: Size, middle: number): Mark[] {
  const start = positionOf(scale, from) * width;
  const end = positionOf(scale, to) * width;
  const fits = end + GAP + textWidth(label) <= width;
  return [
    {
      type: 'rect',
      encode: {
        enter: {
          x: { value: start },
          x2: { value: Math.max(end, start + 1) },
          y: { value: middle - BAR_PIXELS / 2 },
          height: { value: BAR_PIXELS },
          fill: { value: 'var(--series-1)' },
        },
      },
    },
    words(name, -GAP, 'right', middle, 'var(--ink)'),
    words(label, fits ? end + GAP : start - GAP, fits ? 'left' : 'right', middle, 'var(--ink)'),
  ];
}

function words(text: string, left: number, align: 'left' | 'right', middle: number, colour: string): Mark {
  const enter = {
    x: { value: left },
    y: { value: middle },
    text: { value: text },
    align: { value: align },
    baseline: { value: 'middle' as const },
    fill: { value: colour },
  };
  return { type: 'text', encode: { enter } };
}
