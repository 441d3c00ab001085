import { readFileSync } from 'node:fs';

export interface DocExample {
  readonly title: string;
  readonly request: string;
  /** What lies in the payload bucket, where the request is a pointer. */
  readonly payload: string | undefined;
  readonly result: unknown;
}

/** The text of a page of docs/. */
export function docPage(name: string): string {
  return readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
}

/** Each `json request` fence with the `json result` after it, and the `json payload` before it if there is one. */
export function docExamples(page: string): DocExample[] {
  const examples: DocExample[] = [];
  let title = '';
  let payload: string | undefined;
  let request: string | undefined;
  for (const [, heading, kind, text = ''] of page.matchAll(/^## (.+)$|^```json (\w+)\n([\s\S]*?)^```$/gm)) {
    if (heading !== undefined) title = heading;
    if (kind === 'payload') payload = text;
    if (kind === 'request') request = text;
    if (kind === 'result' && request !== undefined) {
      examples.push({ title: `${title} ${examples.length + 1}`, request, payload, result: JSON.parse(text) });
      request = undefined;
      payload = undefined;
    }
  }
  return examples;
}
