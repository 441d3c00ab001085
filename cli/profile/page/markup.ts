import type { Column } from '../profileReport.ts';

/** Markup that is safe to put into a page: whatever was put into it was escaped. */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** What may stand in a template. Nothing is shown of undefined. */
export type Content = Markup | string | number | undefined | readonly Content[];

/** A template whose texts are escaped, whether they stand between tags or in a quoted attribute; markup stays what it is. */
export function html(parts: TemplateStringsArray, ...contents: readonly Content[]): Markup {
  return new Markup(parts.map((part, index) => part + textOf(contents[index])).join(''));
}

function textOf(content: Content): string {
  if (content === undefined) return '';
  if (content instanceof Markup) return content.text;
  if (Array.isArray(content)) return content.map(textOf).join('');
  return escaped(String(content));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** A number and its sign stay on one line. */
function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string).replaceAll(/(?<=\d) %/g, '\u00a0%');
}

/** Three digits that count, and all before the point: 0.0312, 3.12, 312, 3,120. */
export function figures(value: number): string {
  const rounded = Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
  return rounded.toLocaleString('en-US', { maximumFractionDigits: 6 });
}

/** Milliseconds, or seconds where they would be long. */
export function duration(ms: number): string {
  return ms < 1000 ? `${figures(ms)} ms` : `${figures(ms / 1000)} s`;
}

export function dollars(value: number): string {
  return `$${figures(value)}`;
}

/** For an axis: 0.01, 1, 10, 1k, 10k, 1M. */
export function short(value: number): string {
  if (value >= 1e6) return `${figures(value / 1e6)}M`;
  return value >= 1e3 ? `${figures(value / 1e3)}k` : figures(value);
}

/** With a capital first letter, and a full stop. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`.replace(/\.?$/, '.');
}

/** A table that scrolls within itself where the page is narrow; its first column names the rows. */
export function table<One>(
  caption: string,
  ones: readonly One[],
  columns: readonly Column<One>[],
  chosen?: One,
): Markup {
  const row = (one: One): Markup => {
    const [first, ...rest] = columns.map(([, cell]) => cell(one));
    const others = rest.map((cell) => html`<td>${cell}</td>`);
    if (one !== chosen) return html`<tr><th scope="row">${first}</th>${others}</tr>\n`;
    return html`<tr class="chosen"><th scope="row"><span aria-hidden="true">▸ </span>${first}<span class="said"> (recommended)</span></th>${others}</tr>\n`;
  };
  return html`<div class="scroll" role="region" aria-label="${caption}" tabindex="0"><table>
<caption>${caption}</caption>
<thead><tr>${columns.map(([head]) => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>
${ones.map(row)}</tbody>
</table></div>
`;
}

/** Colours by what they are for. Text stands on `page` and on `raised`: `npm run test:page` computes its contrast. */
interface Theme {
  readonly page: string;
  /** Of what lies on the page: code, the verdict, the marked row. */
  readonly raised: string;
  readonly ink: string;
  /** Of words that come second. */
  readonly muted: string;
  /** Of links and of what stands out. */
  readonly accent: string;
  /** Of edges and axes, and of the lines behind charts. */
  readonly rule: string;
  readonly grid: string;
  /** Of charts' lines and of their names, which differ in more than the colour. */
  readonly series: readonly string[];
}

export const LIGHT: Theme = {
  page: '#ffffff',
  raised: '#f4f5f7',
  ink: '#16191d',
  muted: '#565d66',
  accent: '#0b5cad',
  rule: '#868e98',
  grid: '#e6e8eb',
  series: ['#0b5cad', '#b0450c', '#17704a', '#7b3fa8', '#a61e57', '#5c5c00'],
};

export const DARK: Theme = {
  page: '#13161a',
  raised: '#1e2329',
  ink: '#eceef1',
  muted: '#a9b1bb',
  accent: '#84b9ff',
  rule: '#7d8691',
  grid: '#2a3037',
  series: ['#84b9ff', '#ffa36b', '#66d3a3', '#cfa8ff', '#ff95bd', '#d6cf5b'],
};

/** The declarations of a theme's colours, as CSS variables. */
export function variablesOf({ series, ...others }: Theme): string {
  const named = Object.entries(others).map(([name, colour]) => `--${name}:${colour}`);
  return [...named, ...series.map((colour, index) => `--series-${index + 1}:${colour}`)].join(';');
}

/** The page's style sheet, for screens of all widths, light and dark, and for paper. */
export const STYLES = new Markup(`
:root{color-scheme:light dark;${variablesOf(LIGHT)}}
@media screen and (prefers-color-scheme:dark){:root{${variablesOf(DARK)}}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;background:var(--page);color:var(--ink)}
body{margin:0 auto;max-width:1104px;padding:32px 16px 64px;font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:break-word}
p,ul{max-width:68ch;margin:0 0 12px}
ul{padding-left:20px}
a{color:var(--accent)}
a:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:2px solid var(--accent);outline-offset:3px}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:14px}
h1,h2,h3{line-height:1.25;text-wrap:balance}
h1{font-size:36px;letter-spacing:-.02em;margin:0 0 4px}
h2{font-size:24px;letter-spacing:-.01em;margin:0 0 16px}
h3{font-size:16px;margin:24px 0 8px}
section{margin-top:48px;scroll-margin-top:16px}
.version{font-weight:400;color:var(--muted);font-size:22px;letter-spacing:0;white-space:nowrap}
.kind,.aside{color:var(--muted);font-size:14px;margin-bottom:4px}
.skip{position:absolute;left:-9999px}
.skip:focus{left:16px;top:8px;background:var(--page);padding:4px 8px}
nav ul{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;padding:12px 0;margin:20px 0 0;max-width:none;border-block:1px solid var(--grid);font-size:14px}
nav a{text-decoration:none;display:inline-block;padding:4px 0}
nav a:hover{text-decoration:underline}
nav+main>section:first-child{margin-top:32px}
.lead{font-size:28px;line-height:1.25;letter-spacing:-.015em;font-weight:600;max-width:32ch;text-wrap:balance;margin-bottom:12px}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,150px),1fr));gap:20px 24px;margin:24px 0}
.facts div{border-top:2px solid var(--accent);padding-top:8px}
.facts dt{color:var(--muted);font-size:14px}
.facts dd{margin:0;font-size:14px;font-variant-numeric:tabular-nums}
.facts strong{display:block;font-size:26px;line-height:1.3;letter-spacing:-.01em}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,328px),1fr));gap:24px 40px;align-items:start}
.pair h3{margin-top:0}
.verdict{display:flex;gap:14px;background:var(--raised);border-radius:8px;padding:14px 16px}
.verdict p{margin:0}
.sign{flex:none;width:28px;height:28px;border:2px solid var(--ink);border-radius:50%;display:grid;place-items:center;font-weight:700;line-height:1}
pre{background:var(--raised);border-radius:8px;padding:14px 16px;margin:0 0 8px;overflow-x:auto}
#findings li{margin-bottom:6px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(328px,1fr));gap:24px 40px;margin-bottom:24px}
figure,.figures>div{margin:0;min-width:0}
.figures>div>h3:first-child{margin-top:0}
figcaption h3{margin:0 0 4px}
figcaption p{font-size:14px;color:var(--muted);margin:0 0 12px}
figure>svg{display:block;width:328px;font-family:inherit;font-size:12px;font-variant-numeric:tabular-nums}
svg text{fill:var(--muted)}
.legend{list-style:none;padding:0;margin:0;display:flex;flex-wrap:wrap;gap:2px 16px;font-size:13px}
.legend svg{width:24px;height:12px;vertical-align:-1px}
details{margin-top:8px;font-size:14px}
summary{cursor:pointer;color:var(--accent);padding:4px 0}
.scroll{overflow-x:auto;max-width:100%;margin-bottom:12px}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
th,td{text-align:right;padding:5px 0 5px 20px;border-bottom:1px solid var(--grid);white-space:nowrap;font-weight:400}
th:first-child,td:first-child{padding-left:8px}
th:last-child,td:last-child{padding-right:8px}
thead th{color:var(--muted);border-bottom-color:var(--rule);vertical-align:bottom}
th:first-child{text-align:left}
.chosen>*{background:var(--raised);font-weight:600}
.said{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.about div{display:grid;grid-template-columns:minmax(0,11em) minmax(0,1fr);gap:4px 16px;padding:6px 0;border-bottom:1px solid var(--grid)}
.about dt{color:var(--muted)}
.about dd{margin:0;overflow-wrap:anywhere}
footer{margin-top:48px;color:var(--muted);font-size:14px}
@media (max-width:480px){
h1{font-size:30px}.lead{font-size:24px}
.about div{grid-template-columns:1fr}
}
@page{size:A4;margin:15mm}
@media print{
body{padding:0;max-width:none;font-size:10.5pt}
nav,.skip,details,footer{display:none}
section{margin-top:24px}
figure,.verdict,pre,tr,.about,.facts div{break-inside:avoid}
h2,h3{break-after:avoid}
.figures{grid-template-columns:1fr 1fr;gap:14px 16px}
.scroll{overflow:visible}
table{font-size:8.5pt}
th,td{padding:3px 0 3px 6px}
thead th{white-space:normal}
*{print-color-adjust:exact}
}
`);
