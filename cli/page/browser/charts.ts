import uPlot from 'uplot';
import { duration, percent, short } from '../../format.ts';
import type { Chart, Line } from '../wire.ts';
import { make, setText, timeOf } from './dom.ts';

const FORMATS = { duration, percent, short };
const HEIGHT = { overTime: 140, other: 230 };
/** Dash patterns, one for each colour, so that lines differ in more than their colour. */
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [5, 2, 1, 2], [12, 4]];
const MAX_TICKS = 6;

/**
 * Adds an empty figure to a place.
 *
 * @returns a function that draws a chart in it, and redraws it if its width or the theme changes
 */
export function createFigure(place: HTMLElement): (chart: Chart) => void {
  const [title, legend] = [make('h3'), make('ul', { class: 'legend' })];
  const drawing = make('div', { class: 'drawing', role: 'img' });
  place.append(make('figure', {}, make('figcaption', {}, title), drawing, legend));
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
    drawing.setAttribute('aria-label', `${next.title}: ${next.words}`);
    legend.replaceChildren(...next.lines.map(entryOf));
    draw();
  };
}

function entryOf({ name, value }: Line, index: number): HTMLElement {
  const swatch = make('span', { class: 'swatch', 'aria-hidden': 'true' });
  if (index % 2 === 1) swatch.style.borderTopStyle = 'dashed';
  swatch.style.borderColor = `var(--series-${(index % DASHES.length) + 1})`;
  return make('li', {}, swatch, ` ${name} `, ...(value === undefined ? [] : [make('b', {}, value)]));
}

function plotOf(place: HTMLElement, { x, y, lines }: Chart): uPlot {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const { isLogarithmic = false } = x;
  const axis = (title: string | undefined, format: (tick: number) => string): uPlot.Axis => ({
    stroke: colour('muted'),
    font: '12px system-ui, sans-serif',
    labelFont: '12px system-ui, sans-serif',
    labelSize: 18,
    grid: { stroke: colour('grid'), width: 1 },
    ticks: { show: false },
    values: (_, ticks) => ticks.map(format),
    ...(title === undefined ? {} : { label: title }),
  });
  const ofX: uPlot.Axis = isLogarithmic
    ? { ...axis(x.title, short), splits: () => thinned(x.values), filter: (_, splits) => splits }
    : { ...axis(x.title, (seconds) => timeOf(1000 * seconds)), space: 90 };
  return new uPlot(
    {
      width: place.clientWidth || 300,
      height: isLogarithmic ? HEIGHT.other : HEIGHT.overTime,
      padding: [8, 32, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: isLogarithmic ? { time: false, distr: 3, log: 2, range: around } : { time: true },
        y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] },
      },
      axes: [
        { ...ofX, size: 28 },
        { ...axis(y.title, FORMATS[y.format]), size: 62 },
      ],
      series: [
        {},
        ...lines.map((line, index) => seriesOf(line, colour(`series-${(index % DASHES.length) + 1}`), index)),
      ],
    },
    [[...x.values], ...lines.map(({ values }) => [...values])],
    place,
  );
}

function seriesOf({ name }: Line, stroke: string, index: number): uPlot.Series {
  const points = { show: true, filter: alone, size: 4, fill: stroke };
  return { label: name, stroke, width: 2, dash: DASHES[index % DASHES.length], points };
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
