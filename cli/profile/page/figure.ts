import type { Spec } from 'vega';
import { SIZES, type Size } from './charts/chart.ts';
import { draw } from './charts/draw.ts';
import { html, type Markup, trusted } from './html.ts';

/** A chart with its title, its essence in words, and its figures as a table. */
export interface Figure {
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
