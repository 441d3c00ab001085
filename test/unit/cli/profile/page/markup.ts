/** Elements that have no end. */
const VOID = new Set(['meta', 'link', 'br', 'hr', 'img', 'input']);

/** The problems of markup whose elements are not closed in order, or whose attributes are not quoted. */
export function malformed(page: string): string[] {
  const problems: string[] = [];
  const open: string[] = [];
  const body = page.replace(/^<!doctype html>\n/, '').replace(/<style>[^<]*<\/style>/, '');
  for (const [tag, isEnd, name = '', rest = ''] of body.matchAll(/<(\/?)([a-z][a-z0-9]*)((?:[^>"]|"[^"]*")*)>/gi)) {
    if (isEnd === '/') {
      const last = open.pop();
      if (last !== name) problems.push(`${tag} closes ${last}`);
      continue;
    }
    if (rest.replace(/ [a-z][a-zA-Z0-9:-]*(="[^"<]*")?/g, '').replace('/', '') !== '')
      problems.push(`attributes of ${tag}`);
    if (!VOID.has(name) && !rest.endsWith('/')) open.push(name);
  }
  const texts = body.replace(/<\/?[a-z][a-z0-9]*(?:[^>"]|"[^"]*")*>/gi, '');
  for (const [stray] of texts.matchAll(/[<>]|&(?!(amp|lt|gt|quot|#39);)/g)) problems.push(`stray ${stray}`);
  return [...problems, ...open.map((name) => `${name} stays open`)];
}

/** The values of an attribute, in order. */
export function attributes(page: string, name: string): string[] {
  return [...page.matchAll(new RegExp(` ${name}="([^"]*)"`, 'g'))].map(([, value = '']) => value);
}
