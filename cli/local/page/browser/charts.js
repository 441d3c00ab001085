import uPlot from '/uplot.js';
import { duration, figure, make, setText, timeOf } from './common.js';

const HEIGHT = 140;
/** Lines differ in more than their colour. */
const DASHES = [undefined, [6, 4], [2, 3]];
const COLOURS = ['series-1', 'series-2', 'error'];

/** @param {HTMLElement} place @returns {(state: import('../wire.ts').State) => void} draws them */
export function createCharts(place) {
  const figures = CHARTS.map((chart) => createFigure(place, chart));
  /** @type {readonly SecondSeen[]} */
  let seconds = [];
  const draw = () => {
    for (const one of figures) one.draw(seconds);
  };
  const renew = () => {
    for (const one of figures) one.renew();
    draw();
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', renew);
  new ResizeObserver(renew).observe(place);
  return (state) => {
    seconds = state.seconds;
    draw();
  };
}

/** @param {HTMLElement} place @param {Chart} chart */
function createFigure(place, chart) {
  const legend = make('p', { class: 'legend' });
  const values = chart.lines.map(({ name }, index) => {
    const value = make('b', {}, '–');
    legend.append(make('span', {}, make('span', { class: `swatch line-${index + 1}` }), ` ${name} `, value));
    return value;
  });
  const drawing = make('div', { class: 'drawing', role: 'img' });
  place.append(make('figure', {}, make('figcaption', {}, make('h3', {}, chart.title), legend), drawing));
  let plot = plotOf(drawing, chart);
  return {
    /** In the colours and the width of now. */
    renew() {
      plot.destroy();
      plot = plotOf(drawing, chart);
    },
    /** @param {readonly SecondSeen[]} seconds */
    draw(seconds) {
      const last = seconds.at(-1);
      for (const [index, { of }] of chart.lines.entries()) {
        const value = last === undefined ? null : of(last);
        const element = values[index];
        if (element !== undefined) setText(element, value === null ? '–' : chart.format(value));
      }
      drawing.setAttribute('aria-label', `${chart.title}: ${wordsOf(chart, seconds)}`);
      plot.setData([seconds.map(({ at }) => at), ...chart.lines.map(({ of }) => seconds.map(of))]);
    },
  };
}

/** @param {HTMLElement} place @param {Chart} chart */
function plotOf(place, chart) {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = {
    stroke: colour('muted'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: colour('grid'), width: 1 },
    ticks: { show: false },
  };
  return new uPlot(
    {
      width: place.clientWidth || 300,
      height: HEIGHT,
      padding: [8, 24, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
      axes: [
        { ...axis, space: 90, size: 28, values: (_, ticks) => ticks.map((tick) => timeOf(tick * 1000)) },
        { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => chart.format(tick)) },
      ],
      series: [
        {},
        ...chart.lines.map(({ name }, index) => ({
          label: name,
          stroke: colour(COLOURS[index] ?? ''),
          width: 2,
          dash: DASHES[index],
          points: { show: false, filter: alone, size: 4, fill: colour(COLOURS[index] ?? '') },
        })),
      ],
    },
    [[], ...chart.lines.map(() => [])],
    place,
  );
}

/** Values between two gaps: no line reaches them, so each is a point. @param {uPlot} plot @param {number} line */
function alone({ data }, line) {
  const values = data[line] ?? [];
  const isGap = (/** @type {number} */ index) => (values[index] ?? null) === null;
  return [...values.keys()].filter((index) => !isGap(index) && isGap(index - 1) && isGap(index + 1));
}

/** The chart in words. @param {Chart} chart @param {readonly SecondSeen[]} seconds */
function wordsOf({ lines, format }, seconds) {
  const parts = lines.map(({ name, of }) => {
    const values = seconds.map(of).filter((value) => value !== null);
    const last = values.at(-1);
    return last === undefined
      ? `${name}: nothing yet`
      : `${name}: ${format(last)}, at most ${format(Math.max(...values))}`;
  });
  return parts.join('; ');
}

/** @typedef {import('../wire.ts').SecondSeen} SecondSeen */
/** @typedef {{ readonly name: string, readonly of: (second: SecondSeen) => number | null }} Line */
/** @typedef {{ readonly title: string, readonly lines: readonly Line[], readonly format: (value: number) => string }} Chart */

/** A null is a gap in a line. @type {readonly Chart[]} */
const CHARTS = [
  {
    title: 'Queue to result',
    format: duration,
    lines: [
      { name: 'p50', of: ({ p50Ms }) => p50Ms },
      { name: 'p99', of: ({ p99Ms }) => p99Ms },
    ],
  },
  {
    title: 'Fill and padding',
    format: (value) => `${figure(value)} %`,
    lines: [
      { name: 'of the batch size', of: ({ records, room }) => (room === 0 ? null : (100 * records) / room) },
      {
        name: 'of rows run are padding',
        of: ({ rows, paddedRows }) => (paddedRows === 0 ? null : 100 * (1 - rows / paddedRows)),
      },
    ],
  },
  {
    title: 'Messages a second',
    format: (value) => `${figure(value)}/s`,
    lines: [
      { name: 'answered', of: ({ answered }) => answered },
      { name: 'sent from here', of: ({ sent }) => sent },
      { name: 'errors', of: ({ errors }) => errors },
    ],
  },
  {
    title: 'Together',
    format: figure,
    lines: [
      {
        name: 'messages in an invocation',
        of: ({ records, invocations }) => (invocations === 0 ? null : records / invocations),
      },
      { name: 'rows in a micro-batch', of: ({ rows, runs }) => (runs === 0 ? null : rows / runs) },
    ],
  },
];
