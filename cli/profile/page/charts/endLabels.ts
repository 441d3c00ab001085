import type { Mark } from 'vega';
import { type Chart, SIZES, type Size, styleOf } from './chart.ts';
import { positionOf } from './scale.ts';

const LINE_PIXELS = 14;
const GAP = 8;
/** A little below the axis there is room, further down stand the values of its ticks. */
const BELOW_AXIS = 4;

/** The names of series at the ends of their lines, moved apart where they would cover each other. */
export function endLabels({ x, y, series }: Chart, inner: Size, size: Size): Mark[] {
  const wanted = series.map((one, index) => {
    const last = one.values.at(-1) ?? { x: x.domain[0], y: y.domain[0] };
    const lines = labelLines(one.name, size);
    return {
      lines,
      colour: styleOf(one, index).colour,
      left: positionOf(x, last.x) * inner.width + GAP,
      middle: (1 - positionOf(y, last.y)) * inner.height,
      height: lines.length * LINE_PIXELS,
    };
  });
  return movedApart(wanted, inner.height).flatMap(({ lines, colour, left, middle }) =>
    lines.map((line, index): Mark => {
      const below = index - (lines.length - 1) / 2;
      return {
        type: 'text',
        encode: {
          enter: {
            x: { value: left },
            y: { value: middle + below * LINE_PIXELS },
            text: { value: line },
            baseline: { value: 'middle' },
            fill: { value: colour },
          },
        },
      };
    }),
  );
}

/** A longer name takes two lines where there is little room, and a line ends after so many characters. */
const LONG = { narrow: 12, line: 24 };

export function labelLines(name: string, { width }: Size): string[] {
  const isNarrow = width <= SIZES.narrow.width && name.length > LONG.narrow;
  const lines = isNarrow ? name.split(name.includes(', ') ? /(?<=,) / : / (?=[^ ]*$)/) : [name];
  return lines.map((line) => (line.length > LONG.line ? `${line.slice(0, LONG.line - 1)}…` : line));
}

interface Label {
  readonly middle: number;
  readonly height: number;
}

/** From the top down, each below the one before; then from the bottom up, so that the last ones stay on the chart. */
function movedApart<One extends Label>(labels: readonly One[], height: number): One[] {
  const placed = labels.toSorted((a, b) => a.middle - b.middle);
  let top = Number.NEGATIVE_INFINITY;
  const down = placed.map((label) => {
    const middle = Math.max(label.middle, top + label.height / 2);
    top = middle + label.height / 2;
    return { ...label, middle };
  });
  let bottom = height + BELOW_AXIS;
  return down.toReversed().map((label) => {
    const middle = Math.min(label.middle, bottom - label.height / 2);
    bottom = middle - label.height / 2;
    return { ...label, middle };
  });
}
