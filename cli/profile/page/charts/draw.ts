import { parse, type Spec, View } from 'vega';

/** What Vega draws, as the content of an `svg` element, with texts escaped. Colours may be CSS variables. */
export async function draw(spec: Spec): Promise<string> {
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
