import { type Axis, type Mark, parse, type Spec, type Scale as VegaScale, View } from 'vega';
import { count, html, type Markup, short, trusted } from './markup.ts';

/** A chart with its title, its essence in words, and its figures as a table. */
interface Figure {
  /** Unique on the page. */
  readonly id: string;
  readonly title: string;
  /** What the chart shows, for those who see it and those who do not. */
  readonly essence: string;
  readonly chart: (size: Size) => Spec;
  readonly table: Markup;
}

/** The chart is drawn for two widths; the page shows the one that suits the figure's. */
export async function figure({ id, title, essence, chart, table }: Figure): Promise<Markup> {
  const drawings = await Promise.all(
    Object.entries(SIZES).map(async ([name, size]) => {
      const own = `${id}-${name}`;
      const { width, height } = size;
      return html`<svg class="${name}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="${own}-title ${own}-desc">
<title id="${own}-title">${title}</title><desc id="${own}-desc">${essence}</desc>
${trusted(await draw(chart(size)))}
</svg>
`;
    }),
  );
  return html`<figure id="${id}">
<figcaption><h3>${title}</h3><p>${essence}</p></figcaption>
<div class="drawing">${drawings}</div>
<details><summary>Figures: ${title}</summary>
${table}</details>
</figure>
`;
}

/** What Vega draws, as the content of an `svg` element, with texts escaped. Colours may be CSS variables. */
async function draw(spec: Spec): Promise<string> {
  const view = new View(parse(spec), { renderer: 'none' });
  try {
    const svg = await view.toSVG();
    return slimmed(svg.replace(/^<svg[^>]*>/, '').replace(/<\/svg>$/, ''));
  } finally {
    view.finalize();
  }
}

/** Without what only a page with Vega's script needs, and with a tenth of a pixel as the smallest step. */
function slimmed(content: string): string {
  return content
    .replace(/<path class="(?:background|foreground)"[^>]*\/>/g, '')
    .replace(/(<[a-z]+)((?: [a-z][a-z0-9:-]*="[^"]*")+)/g, (_, tag: string, attributes: string) => {
      const kept = attributes.replace(/ (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"| opacity="1"/g, '');
      return tag + kept.replace(/\d+\.\d{2,}/g, (number) => String(Math.round(10 * Number(number)) / 10));
    })
    .replace(/<g><\/g>/g, '');
}

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

function axisBelow(scale: Scale): Axis {
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

/** Steps that follow each other: a bar each, which begins where the one before ends. */
interface Steps {
  readonly x: Scale;
  readonly steps: readonly Step[];
}

interface Step {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  /** Its length, in words. */
  readonly label: string;
}

const MAX_ROW_PIXELS = 52;
const BAR_PIXELS = 22;

/** The bars in Vega's words. */
export function stepsChart({ x, steps }: Steps, size: Size): Spec {
  const left = GAP + Math.max(...steps.map(({ name }) => textWidth(name)));
  const right = GAP + textWidth(x.format(x.ticks.at(-1) ?? 0)) / 2;
  const row = Math.min(MAX_ROW_PIXELS, Math.floor((size.height - BOTTOM - GAP) / steps.length));
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

const LABEL_GAP = 5;

/** Values that are marked across the chart, with their names; an arrow where they are beyond it. */
function lineMarks({ x, y, verticals = [], horizontals = [] }: Chart, inner: Size): Mark[] {
  return [
    ...verticals.flatMap((line) => vertical(line, positionOf(x, line.at) * inner.width, inner)),
    ...horizontals.flatMap((line) => horizontal(line, y, inner)),
  ];
}

/** Rings around points, with their names above them, or below where the one before would be covered. */
function pointMarks({ x, y, points = [] }: Chart, inner: Size): Mark[] {
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

/** A little below the axis there is room, further down stand the values of its ticks. */
const BELOW_AXIS = 4;

/** The names of series at the ends of their lines, moved apart where they would cover each other. */
function endLabels({ x, y, series }: Chart, inner: Size, size: Size): Mark[] {
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

function labelLines(name: string, { width }: Size): string[] {
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

/** A chart of lines over two axes, without a size. */
interface Chart {
  readonly x: Scale;
  readonly y: Scale;
  readonly series: readonly Series[];
  /** Values of x and of y that are marked across the chart. */
  readonly verticals?: readonly Line[];
  readonly horizontals?: readonly Line[];
  /** Points that stand out, with or without a name. */
  readonly points?: readonly Point[];
}

interface Series {
  /** Stands at the end of the line. */
  readonly name: string;
  readonly values: readonly XY[];
  /** Whether each value is marked, as what was measured is. */
  readonly isMarked: boolean;
  /** Drawn back, as something to compare with. */
  readonly isReference?: boolean;
}

interface XY {
  readonly x: number;
  readonly y: number;
}

interface Line {
  readonly at: number;
  readonly label: string;
}

interface Point extends XY {
  readonly label: string;
}

/** Pixels of an SVG that is shown in its own size, so that its texts are as large as those of the page. */
interface Size {
  readonly width: number;
  readonly height: number;
}

/** For a phone or a column, and for more room. */
const SIZES = { narrow: { width: 328, height: 264 }, wide: { width: 508, height: 320 } } as const;

/** Pixels of text: nothing on the page is smaller than 11. */
const FONT_PIXELS = 12;
/** Of an average character, a little on the safe side. */
const CHARACTER_PIXELS = 7.2;

function textWidth(text: string): number {
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

function styleOf({ isReference }: Pick<Series, 'isReference'>, index: number) {
  return isReference === true ? REFERENCE_STYLE : (STYLES[index % STYLES.length] ?? REFERENCE_STYLE);
}

/** An axis, from what value to what. */
interface Scale {
  readonly kind: 'log' | 'linear';
  readonly domain: readonly [from: number, to: number];
  readonly ticks: readonly number[];
  readonly title: string;
  readonly format: (value: number) => string;
}

const MAX_TICKS = 6;
const DECADE = 10;
/** A log axis shorter than that says more with its first digits than with powers of ten. */
const SHORT_DECADES = 1.6;

/** Powers of ten around the values. */
export function decades(values: readonly number[], title: string, format: (value: number) => string = short): Scale {
  const [min, max] = [Math.min(...values), Math.max(...values)];
  const isShort = Math.log10(max / min) < SHORT_DECADES;
  const from = isShort ? below(min) : DECADE ** Math.floor(Math.log10(min) + EPSILON);
  const to = isShort ? above(max) : DECADE ** Math.ceil(Math.log10(max) - EPSILON);
  const powers = powersBetween(DECADE, from, to);
  const ticks = isShort ? steps(from, to) : thinned(powers);
  return { kind: 'log', domain: [from, to === from ? from * DECADE : to], ticks, title, format };
}

/** Each of the values, or every second, third, … where they are many: row counts double. */
export function doublings<One>(ones: readonly One[], of: (one: One) => number, title: string): Scale {
  const own = [...new Set(ones.map(of))].toSorted((a, b) => a - b);
  const [from, to] = [own[0] ?? 1, own.at(-1) ?? 1];
  return { kind: 'log', domain: [from, to === from ? 2 * from : to], ticks: thinned(own), title, format: count };
}

/** From zero on, with even steps. */
export function fromZero(values: readonly number[], title: string, format: (value: number) => string = short): Scale {
  const max = Math.max(...values);
  const rough = max / (MAX_TICKS - 1);
  const power = DECADE ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((multiple) => multiple * power >= rough) ?? 10) * power;
  const ticks = Array.from({ length: Math.ceil(max / step - EPSILON) + 1 }, (_, index) => index * step);
  return { kind: 'linear', domain: [0, ticks.at(-1) ?? 1], ticks, title, format };
}

/** Where a value stands, from 0 to 1. */
function positionOf({ kind, domain: [from, to] }: Scale, value: number): number {
  return kind === 'log' ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
}

const EPSILON = 1e-9;
const FIRST_DIGITS = [1, 2, 5];

function steps(from: number, to: number): number[] {
  return powersBetween(DECADE, from / DECADE, to)
    .flatMap((power) => FIRST_DIGITS.map((digit) => rounded(digit * power)))
    .filter((value) => value >= from * (1 - EPSILON) && value <= to * (1 + EPSILON));
}

function below(value: number): number {
  return steps(value / DECADE, value * (1 + EPSILON)).at(-1) ?? value;
}

function above(value: number): number {
  return steps(value * (1 - EPSILON), value * DECADE)[0] ?? value;
}

function powersBetween(base: number, from: number, to: number): number[] {
  const first = Math.ceil(Math.log(from) / Math.log(base) - EPSILON);
  const last = Math.floor(Math.log(to) / Math.log(base) + EPSILON);
  return Array.from({ length: last - first + 1 }, (_, index) => rounded(base ** (first + index)));
}

function thinned(ticks: readonly number[]): number[] {
  const every = Math.ceil(ticks.length / MAX_TICKS);
  return ticks.filter((_, index) => index % every === 0);
}

function rounded(value: number): number {
  return Number(value.toPrecision(6));
}
