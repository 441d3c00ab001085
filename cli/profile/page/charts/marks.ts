import type { Mark } from 'vega';
import { type Chart, type Line, type Size, textWidth } from './chart.ts';
import { positionOf, type Scale } from './scale.ts';

const LABEL_GAP = 5;

/** Values that are marked across the chart, with their names; an arrow where they are beyond it. */
export function lineMarks({ x, y, verticals = [], horizontals = [] }: Chart, inner: Size): Mark[] {
  return [
    ...verticals.flatMap((line) => vertical(line, positionOf(x, line.at) * inner.width, inner)),
    ...horizontals.flatMap((line) => horizontal(line, y, inner)),
  ];
}

/** Rings around points, with their names above them, or below where the one before would be covered. */
export function pointMarks({ x, y, points = [] }: Chart, inner: Size): Mark[] {
  let before: Place | undefined;
  return points.flatMap(({ label, ...point }) => {
    const left = positionOf(x, point.x) * inner.width;
    const top = (1 - positionOf(y, point.y)) * inner.height;
    const place = besides(label, left, inner);
    const isCovering = before !== undefined && Math.abs(place.left - before.left) < textWidth(label) + LABEL_GAP;
    before = isCovering ? undefined : place;
    return [ring(left, top), text(label, place, isCovering ? top + BELOW : top - ABOVE)];
  });
}

/** From the middle of a ring to the line that its name stands on. */
const ABOVE = 12;
const BELOW = 21;

function ring(left: number, top: number): Mark {
  const enter = {
    x: { value: left },
    y: { value: top },
    shape: { value: 'circle' },
    size: { value: 130 },
    stroke: { value: 'var(--ink)' },
    strokeWidth: { value: 2 },
  };
  return { type: 'symbol', encode: { enter } };
}

function vertical({ label }: Line, left: number, inner: Size): Mark[] {
  return [
    rule({ x: { value: left }, y: { value: 0 }, y2: { value: inner.height } }),
    text(label, besides(label, left, inner), 9),
  ];
}

function horizontal({ at, label }: Line, y: Scale, inner: Size): Mark[] {
  if (at > y.domain[1]) return [text(`↑ ${label}`, { left: 0, align: 'left' }, -6)];
  const top = (1 - positionOf(y, at)) * inner.height;
  return [
    rule({ x: { value: 0 }, x2: { value: inner.width }, y: { value: top } }),
    text(label, { left: LABEL_GAP, align: 'left' }, top - LABEL_GAP),
  ];
}

interface Place {
  readonly left: number;
  readonly align: 'left' | 'right';
}

/** To the right of a position, or to the left where there is more room. */
function besides(label: string, left: number, { width }: Size): Place {
  const isRight = left + LABEL_GAP + textWidth(label) <= width || left < width / 2;
  return isRight ? { left: left + LABEL_GAP, align: 'left' } : { left: left - LABEL_GAP, align: 'right' };
}

function rule(at: Readonly<Record<string, { readonly value: number }>>): Mark {
  const enter = { ...at, stroke: { value: 'var(--ink)' }, strokeDash: { value: [3, 3] }, strokeWidth: { value: 1 } };
  return { type: 'rule', encode: { enter } };
}

function text(label: string, { left, align }: Place, top: number): Mark {
  const enter = {
    x: { value: left },
    y: { value: top },
    text: { value: label },
    align: { value: align },
    fill: { value: 'var(--ink)' },
    fontWeight: { value: 600 as const },
  };
  return { type: 'text', encode: { enter } };
}
