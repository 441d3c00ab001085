import { type Content, html, type Markup } from './html.ts';

/** The head of a column. Words stand to the left, numbers to the right. */
export type Column = string | { readonly head: string; readonly isText: true };

export interface Row {
  readonly cells: readonly Content[];
  readonly isChosen?: boolean;
}

/** A table that scrolls within itself where the page is narrow; its first column names the rows. */
export function table(caption: string, columns: readonly Column[], rows: readonly Row[]): Markup {
  const kinds = columns.map((column) => (typeof column === 'string' ? undefined : html` class="text"`));
  const heads = columns.map((column, index) => {
    return html`<th scope="col"${kinds[index]}>${typeof column === 'string' ? column : column.head}</th>`;
  });
  return html`<div class="scroll" role="region" aria-label="${caption}" tabindex="0"><table>
<caption>${caption}</caption>
<thead><tr>${heads}</tr></thead>
<tbody>
${rows.map((row) => bodyRow(row, kinds))}</tbody>
</table></div>
`;
}

function bodyRow({ cells, isChosen }: Row, kinds: readonly (Markup | undefined)[]): Markup {
  const [first, ...rest] = cells;
  const others = rest.map((cell, index) => html`<td${kinds[index + 1]}>${cell}</td>`);
  const mark = isChosen ? html`<span class="mark" aria-hidden="true">▸ </span>` : undefined;
  const said = isChosen ? html`<span class="said"> (recommended)</span>` : undefined;
  const chosen = isChosen ? html` class="chosen"` : undefined;
  return html`<tr${chosen}><th scope="row"${kinds[0]}>${mark}${first}${said}</th>${others}</tr>
`;
}
