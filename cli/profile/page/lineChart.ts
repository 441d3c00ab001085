import { html, type Markup, short } from './markup.ts';

/** Lines over two logarithmic axes, drawn as SVG, with a title, its essence in words, and a legend. */
export interface Chart {
  /** Unique on the page. */
  readonly id: string;
  readonly title: string;
  /** What the chart shows, for those who see it and those who do not. */
  readonly essence: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
  /** Values of x and of y that are drawn across the chart, unless they lie beyond it. */
  readonly vertical?: Mark | undefined;
  readonly horizontal?: Mark | undefined;
  /** Points with a ring around them. */
  readonly rings?: readonly Point[];
}

export interface Series {
  readonly name: string;
  readonly points: readonly Point[];
  /** True if points are marked, as measured ones are. @default false */
  readonly isMarked?: boolean;
}

type Point = readonly [x: number, y: number];

interface Mark {
  readonly at: number;
  readonly name: string;
}

interface Axis {
  readonly title: string;
  readonly domain: readonly [from: number, to: number];
  readonly ticks: readonly number[];
  readonly unit: string;
}

/** As wide as a phone's column, so that texts have their own size everywhere. */
const [WIDTH, HEIGHT] = [328, 252];
const PLOT = { left: 46, right: 314, top: 26, bottom: 208 };
/** How lines differ besides their colour; there are as many colours. */
const DASHES = ['', '7 3', '2 3', '9 3 2 3', '5 2 1 2 1 2', '12 4'];
const ACROSS = html` stroke="var(--ink)" stroke-dasharray="3 3"`;

export function figure(chart: Chart): Markup {
  const { id, title, essence, x, y, series, rings = [] } = chart;
  const vertical = within(x, chart.vertical);
  const horizontal = within(y, chart.horizontal);
  const legend = [
    ...series.map(({ name }, index) => entry(html`<path d="M0 6H24"${strokeOf(index)}/>`, name)),
    vertical && entry(html`<path d="M12 0V12"${ACROSS}/>`, vertical.name),
    horizontal && entry(html`<path d="M0 6H24"${ACROSS}/>`, horizontal.name),
  ];
  return html`<figure id="${id}">
<figcaption><h3>${title}</h3><p>${essence}</p></figcaption>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="${id}-title ${id}-desc">
<title id="${id}-title">${title}</title><desc id="${id}-desc">${essence}</desc>
${axes(x, y)}${vertical && html`<path d="M${xOf(x, vertical.at)} ${PLOT.top}V${PLOT.bottom}"${ACROSS}/>`}${
  horizontal && html`<path d="M${PLOT.left} ${yOf(y, horizontal.at)}H${PLOT.right}"${ACROSS}/>`
}${series.map((one, index) => line(one, index, x, y))}${rings.map(
  ([atX, atY]) =>
    html`<circle cx="${xOf(x, atX)}" cy="${yOf(y, atY)}" r="6" fill="none" stroke="var(--ink)" stroke-width="2"/>`,
)}
</svg>
<ul class="legend">${legend}</ul>
</figure>
`;
}

function within({ domain: [from, to] }: Axis, mark: Mark | undefined): Mark | undefined {
  return mark !== undefined && mark.at >= from && mark.at <= to ? mark : undefined;
}

function entry(sample: Markup, name: string): Markup {
  return html`<li><svg viewBox="0 0 24 12" aria-hidden="true">${sample}</svg> ${name}</li>`;
}

function strokeOf(index: number): Markup {
  const style = index % DASHES.length;
  return html` fill="none" stroke="var(--series-${style + 1})" stroke-width="2" stroke-dasharray="${DASHES[style]}"`;
}

function line({ points, isMarked = false }: Series, index: number, x: Axis, y: Axis): Markup {
  const places = points.map(([atX, atY]) => [xOf(x, atX), yOf(y, atY)] as const);
  const colour = `var(--series-${(index % DASHES.length) + 1})`;
  const dots = places.map(([left, top]) => html`<circle cx="${left}" cy="${top}" r="3" fill="${colour}"/>`);
  const path = places.map((place) => place.join(' ')).join('L');
  return html`<path d="M${path}"${strokeOf(index)}/>${isMarked ? dots : undefined}`;
}

/** The title of the y axis stands above it, where it is read without turning the head. */
function axes(x: Axis, y: Axis): Markup {
  const { left, right, top, bottom } = PLOT;
  const across = y.ticks.map((tick) => {
    const at = yOf(y, tick);
    return html`<path d="M${left} ${at}H${right}" stroke="var(--grid)"/><text x="${left - 6}" y="${at + 4}" text-anchor="end">${y.unit}${short(tick)}</text>`;
  });
  const below = x.ticks.map((tick) => {
    const at = xOf(x, tick);
    return html`<path d="M${at} ${bottom}v4" stroke="var(--rule)"/><text x="${at}" y="${bottom + 18}" text-anchor="middle">${short(tick)}</text>`;
  });
  return html`${across}<path d="M${left} ${bottom}H${right}" stroke="var(--rule)"/>${below}<text x="0" y="${top - 14}">${y.title}</text><text x="${(left + right) / 2}" y="${bottom + 38}" text-anchor="middle">${x.title}</text>
`;
}

/** Pixels from the left, and from the top, to a tenth. */
function xOf(axis: Axis, value: number): number {
  return Math.round(10 * (PLOT.left + shareOf(axis, value) * (PLOT.right - PLOT.left))) / 10;
}

function yOf(axis: Axis, value: number): number {
  return Math.round(10 * (PLOT.bottom - shareOf(axis, value) * (PLOT.bottom - PLOT.top))) / 10;
}

function shareOf({ domain: [from, to] }: Axis, value: number): number {
  return Math.log(value / from) / Math.log(to / from);
}

const MAX_TICKS = 6;
const EPSILON = 1e-9;

/** An axis from the smallest to the largest value, with ticks at some of them: row counts double. */
export function axisOf(title: string, values: readonly number[]): Axis {
  const own = [...new Set(values)].toSorted((a, b) => a - b);
  const [from, to] = [own[0] ?? 1, own.at(-1) ?? 1];
  return { title, domain: [from, from === to ? 2 * to : to], ticks: thinned(own), unit: '' };
}

/** An axis around the values, with ticks at powers of ten, or at 1, 2 and 5 times them where it is short. */
export function roundAxis(title: string, values: readonly number[], unit = ''): Axis {
  const [min, max] = [Math.min(...values), Math.max(...values)];
  const all = stepsBetween(min / 10, max * 10);
  const from = all.findLast((step) => step <= min * (1 + EPSILON)) ?? min;
  const to = all.find((step) => step >= max * (1 - EPSILON) && step > from) ?? max;
  const steps = all.filter((step) => step >= from && step <= to);
  const powers = steps.filter((step) => step.toExponential().startsWith('1e'));
  return { title, domain: [from, to], ticks: thinned(steps.length > MAX_TICKS ? powers : steps), unit };
}

/** 1, 2 and 5 times powers of ten. */
function stepsBetween(from: number, to: number): number[] {
  const [first, last] = [Math.floor(Math.log10(from)), Math.ceil(Math.log10(to))];
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
    .flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)))
    .filter((step) => step >= from && step <= to);
}

function thinned(ticks: readonly number[]): number[] {
  const every = Math.ceil(ticks.length / MAX_TICKS);
  return ticks.filter((_, index) => index % every === 0);
}
