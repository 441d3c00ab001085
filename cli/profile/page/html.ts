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

/** Markup that another program made, which escaped what it was given. */
export function trusted(text: string): Markup {
  return new Markup(text);
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

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string);
}
