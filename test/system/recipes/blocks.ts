/** A fenced block: `` ```python send.py `` has the language python and the name send.py. */
export interface Block {
  readonly language: string;
  /** What follows the language: the path of the file that the block is, or `dev` for what keeps running. */
  readonly name: string;
  readonly text: string;
  /** The headings that it stands below, from the second level on. */
  readonly section: string;
}

/** The fenced blocks of a page, in their order. */
export function blocksOf(page: string): Block[] {
  const blocks: Block[] = [];
  let above: readonly string[] = [];
  const parts = page.matchAll(/^(##+) (.+)$|^```(\w+) ?(.*)\n([\s\S]*?)^```$/gm);
  for (const [, marks = '', heading, language = '', name = '', text = ''] of parts) {
    if (heading !== undefined) above = [...above.slice(0, marks.length - 2), heading];
    else blocks.push({ language, name, text, section: above.join(', ') });
  }
  return blocks;
}
