import type { Axis, Mark, Spec, Scale as VegaScale } from 'vega';
import { type Chart, FONT_PIXELS, type Series, type Size, styleOf, textWidth } from './chart.ts';
import { endLabels, labelLines } from './endLabels.ts';
import { lineMarks, pointMarks } from './marks.ts';
import type { Scale } from './scale.ts';

const TOP = 40;
const BOTTOM = 42;
const GAP = 8;
const LINE_PIXELS = 15;

/** The chart in Vega's words. */
export function lineChart(chart: Chart, size: Size): Spec {
  const { x, y, series } = chart;
  const isNamed = series.length > 1;
  const names = isNamed ? series.flatMap(({ name }) => labelLines(name, size)) : [];
  const left = GAP + Math.max(...y.ticks.map((tick) => textWidth(y.format(tick))));
  const right = Math.max(GAP + Math.max(0, ...names.map(textWidth)), textWidth(x.format(x.ticks.at(-1) ?? 0)) / 2);
  const inner = { width: Math.floor(size.width - left - right), height: size.height - TOP - BOTTOM };
  return {
    ...inner,
    padding: { left, right: size.width - left - inner.width, top: TOP, bottom: BOTTOM },
    autosize: 'none',
    config: { text: { font: 'inherit', fontSize: FONT_PIXELS } },
    scales: [vegaScale('x', x, 'width'), vegaScale('y', y, 'height')],
    axes: [axisBelow(x), axisBeside(y, left)],
    data: series.map(({ values }, index) => ({ name: `series${index}`, values: [...values] })),
    marks: [
      ...lineMarks(chart, inner),
      ...series.flatMap((one, index) => seriesMarks(one, index)),
      ...pointMarks(chart, inner),
      ...(isNamed ? endLabels(chart, inner, size) : []),
    ],
  };
}

function seriesMarks(series: Series, index: number): Mark[] {
  const { colour, dash, shape } = styleOf(series, index);
  const at = { x: { scale: 'x', field: 'x' }, y: { scale: 'y', field: 'y' } };
  const line: Mark = {
    type: 'line',
    from: { data: `series${index}` },
    encode: {
      enter: {
        ...at,
        stroke: { value: colour },
        strokeWidth: { value: 2 },
        strokeDash: { value: [...dash] },
        strokeJoin: { value: 'round' },
      },
    },
  };
  const marks: Mark = {
    type: 'symbol',
    from: { data: `series${index}` },
    encode: { enter: { ...at, shape: { value: shape }, size: { value: 34 }, fill: { value: colour } } },
  };
  return series.isMarked ? [line, marks] : [line];
}

function vegaScale(name: string, { kind, domain }: Scale, range: 'width' | 'height'): VegaScale {
  return { name, type: kind, domain: [...domain], range, zero: false, nice: false };
}

export function axisBelow(scale: Scale): Axis {
  return {
    ...axis('x', scale),
    orient: 'bottom',
    tickColor: 'var(--rule)',
    domainColor: 'var(--rule)',
    tickSize: 4,
    titleY: 36,
    titleAlign: 'center',
  };
}

/** Its title stands above, where it is read without turning the head. */
function axisBeside(scale: Scale, left: number): Axis {
  return {
    ...axis('y', scale),
    orient: 'left',
    grid: true,
    gridColor: 'var(--grid)',
    domain: false,
    ticks: false,
    titleAngle: 0,
    titleAlign: 'left',
    titleX: -left,
    titleY: LINE_PIXELS - TOP,
  };
}

function axis(name: string, { title, ticks, format }: Scale): Omit<Axis, 'orient'> {
  const labels = Object.fromEntries(ticks.map((tick) => [String(tick), format(tick)]));
  return {
    scale: name,
    values: [...ticks],
    title,
    labelFont: 'inherit',
    labelFontSize: FONT_PIXELS,
    labelColor: 'var(--muted)',
    labelPadding: 6,
    titleFont: 'inherit',
    titleFontSize: FONT_PIXELS,
    titleFontWeight: 'normal',
    titleBaseline: 'alphabetic',
    titleColor: 'var(--muted)',
    encode: { labels: { update: { text: { signal: `${JSON.stringify(labels)}[datum.value]` } } } },
  };
}
