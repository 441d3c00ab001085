import uPlot from 'uplot';
import { DURATION_STEPS, dollars, duration, durationTicks, percent, short } from '../../format.ts';
import type { Chart, Line } from '../wire.ts';
import { make, setText, timeOf } from './dom.ts';

const FORMATS = { dollars, duration, percent, short };
const HEIGHT = 230;
const SHORT_HEIGHT = 140;
/** Dash patterns, one for each colour, so that lines differ in more than their colour. */
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [5, 2, 1, 2], [12, 4]];
const MAX_TICKS = 6;

/**
 * Adds an empty figure to a place.
 *
 * @returns a function that draws a chart in it, and redraws it if its width or the theme changes
 */
export function createFigure(place: HTMLElement): (chart: Chart) => void {
  const [title, essence, legend] = [make('h3'), make('p'), make('ul', { class: 'legend' })];
  const drawing = make('div', { class: 'drawing', role: 'img' });
  place.append(make('figure', {}, make('figcaption', {}, title, essence), drawing, legend));
  let chart: Chart | undefined;
  let plot: uPlot | undefined;
  const draw = (): void => {
    if (chart === undefined) return;
    plot?.destroy();
    plot = plotOf(drawing, chart);
  };
  for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', draw);
  new ResizeObserver(draw).observe(place);
  return (next) => {
    chart = next;
    setText(title, next.title);
    setText(essence, next.essence ?? '');
    const words = next.words ?? next.essence ?? '';
    drawing.setAttribute('aria-label', `${next.title}: ${words}`);
    legend.replaceChildren(...next.lines.map(entryOf));
    draw();
  };
}

function entryOf({ name, value, as }: Line, index: number): HTMLElement {
  const swatch = make('span', { class: `swatch ${as ?? 'points'}`, 'aria-hidden': 'true' });
  if (index % 2 === 1) swatch.style.borderTopStyle = 'dashed';
  if (as !== 'ring') swatch.style.borderColor = `var(--series-${(index % DASHES.length) + 1})`;
  return make('li', {}, swatch, ` ${name} `, ...(value === undefined ? [] : [make('b', {}, value)]));
}

function plotOf(place: HTMLElement, { x, y, lines }: Chart): uPlot {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const axis: uPlot.Axis = {
    stroke: colour('muted'),
    font: '12px system-ui, sans-serif',
    labelFont: '12px system-ui, sans-serif',
    labelSize: 18,
    grid: { stroke: colour('grid'), width: 1 },
    ticks: { show: false },
  };
  const { base } = x;
  const ofX: uPlot.Axis =
    base === undefined ? { space: 90 } : { splits: () => thinned(x.values), filter: (_, splits) => splits };
  const ofY: uPlot.Axis =
    y.format === 'duration' && y.isLogarithmic !== true
      ? { incrs: [...DURATION_STEPS], space: 22, values: (_, ticks) => durationTicks(ticks) }
      : { values: (_, ticks) => ticks.map((tick) => named(tick, y.format)) };
  const format = base === undefined ? (seconds: number) => timeOf(1000 * seconds) : short;
  const titled = (title: string | undefined): uPlot.Axis => (title === undefined ? {} : { label: title });
  return new uPlot(
    {
      width: place.clientWidth || 300,
      height: base === undefined ? SHORT_HEIGHT : HEIGHT,
      padding: [8, 32, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: base === undefined ? { time: true } : { time: false, distr: 3, log: base, range: around },
        y: y.isLogarithmic ? { distr: 3 } : { range: (_, __, most) => [0, Math.max(1, most * 1.1)] },
      },
      axes: [
        { ...axis, ...ofX, ...titled(x.title), size: 28, values: (_, ticks) => ticks.map(format) },
        { ...axis, ...ofY, ...titled(y.title), size: 62 },
      ],
      series: [{}, ...lines.map((line, index) => seriesOf(line, index, colour))],
    },
    [[...x.values], ...lines.map(({ values }) => [...values])],
    place,
  );
}

/** Formats a tick. uPlot passes null for the minor ticks of a logarithmic axis. */
function named(tick: number | null, format: keyof typeof FORMATS): string {
  return tick === null ? '' : FORMATS[format](tick);
}

function seriesOf({ name, as }: Line, index: number, colour: (name: string) => string): uPlot.Series {
  const style = index % DASHES.length;
  const stroke = colour(as === 'ring' ? 'ink' : `series-${style + 1}`);
  if (as === 'ring') {
    const points = { show: true, size: 14, width: 2, fill: 'transparent', stroke };
    return { label: name, stroke, width: 0, paths: () => null, points };
  }
  const points =
    as === 'points'
      ? { show: true, size: 6, fill: stroke }
      : { show: as === undefined, filter: alone, size: 4, fill: stroke };
  return { label: name, stroke, width: 2, dash: DASHES[style], spanGaps: as === 'points', points };
}

/** Returns the indexes of values between two gaps. No line reaches them, so they are drawn as points. */
function alone({ data }: uPlot, line: number): number[] {
  const values = data[line] ?? [];
  const isGap = (index: number): boolean => (values[index] ?? null) === null;
  return [...values.keys()].filter((index) => !isGap(index) && isGap(index - 1) && isGap(index + 1));
}

/** Returns a range with space before the first and after the last value, also if they are equal. */
function around(_: uPlot, min: number, max: number): [number, number] {
  const room = max === min ? 2 : (max / min) ** 0.04;
  return [min / room, max * room];
}

function thinned(values: readonly number[]): number[] {
  const every = Math.ceil(values.length / MAX_TICKS);
  return values.filter((_, index) => index % every === 0);
}
