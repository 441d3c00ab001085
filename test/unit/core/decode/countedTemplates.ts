import { createTemplates, type Templates } from '../../../../lambda/core/bodyTemplate.ts';

/** Templates that count the requests that they read: those alone in their body, or those of packed bodies. */
export function countedTemplates(what: 'alone' | 'packed'): Templates & { readonly hits: () => number } {
  const templates = createTemplates();
  const hits = { alone: 0, packed: 0 };
  const counted = <T>(request: T | undefined, kind: keyof typeof hits): T | undefined => {
    if (request !== undefined) hits[kind] += 1;
    return request;
  };
  return {
    ...templates,
    hits: () => hits[what],
    read: (body, record) => counted(templates.read(body, record), 'alone'),
    readNext: (body, cursor) => counted(templates.readNext(body, cursor), 'packed'),
  };
}
