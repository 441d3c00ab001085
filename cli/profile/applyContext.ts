import { readFile, writeFile } from 'node:fs/promises';
import * as z from 'zod';
import { parseIfJson } from '../../lambda/core/json.ts';
import { systemReason } from '../textFiles.ts';

/** Keys of the CDK context and what they are to be. */
type ContextFragment = Readonly<Record<string, number | string>>;

/**
 * Writes settings into the context of a `cdk.json`; all else in it stays as it is, to the letter.
 *
 * @throws Error when the file is not there, is not JSON, or has settings that go against these
 */
export async function applyContext(path: string, fragment: ContextFragment): Promise<void> {
  await writeFile(path, withContext(await checkedText(path), fragment));
}

/** Checks before a minute is spent on measuring. @throws Error as `applyContext` does */
export async function checkContext(path: string): Promise<void> {
  await checkedText(path);
}

/** @param text of a JSON object */
export function withContext(text: string, fragment: ContextFragment): string {
  const context = membersOf(text, text.indexOf('{')).findLast(({ key }) => key === 'context');
  if (context === undefined) return withMember(text, text.indexOf('{'), 'context', fragment);
  return Object.entries(fragment).reduce(
    (written, [key, value]) => withMember(written, context.valueStart, key, value),
    text,
  );
}

/** The object at `start` with the value of a key, in its place where it has one, else before all others. */
function withMember(text: string, start: number, key: string, value: unknown): string {
  const members = membersOf(text, start);
  // Of a key that stands there twice the last one counts.
  const found = members.findLast((member) => member.key === key);
  if (found !== undefined) return text.slice(0, found.valueStart) + JSON.stringify(value) + text.slice(found.valueEnd);
  const [first] = members;
  const member = `${JSON.stringify(key)}: ${JSON.stringify(value)}`;
  if (first === undefined) return `${text.slice(0, start + 1)} ${member} ${text.slice(start + 1)}`;
  const indent = text.slice(start + 1, first.keyStart);
  return `${text.slice(0, first.keyStart)}${member},${indent || ' '}${text.slice(first.keyStart)}`;
}

const CDK_JSON = z.object({ context: z.record(z.string(), z.unknown()).default({}) });

async function checkedText(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((cause) => {
    const reason = systemReason(cause) ?? String(cause);
    throw new Error(`--apply: expected ${path} in the current folder, got: ${reason}; run it beside cdk.json`, {
      cause,
    });
  });
  const parsed = parseIfJson(text);
  if (parsed === undefined) throw new Error(`--apply: expected ${path} to be JSON, it is not; correct it`);
  const { data } = CDK_JSON.safeParse(parsed);
  if (data === undefined) {
    throw new Error(`--apply: expected an object with a context in ${path}, got something else; correct it`);
  }
  refuseOthers(data.context, path);
  return text;
}

/** What was recommended is for one standard queue and a function that starts when messages come. */
function refuseOthers(context: Readonly<Record<string, unknown>>, path: string): void {
  const { compute = 'lambda', fifo = false, shards = 1, minimumPollers, maximumPollers } = context;
  const others = [
    compute === 'lambda' ? undefined : `compute ${JSON.stringify(compute)}`,
    fifo === false ? undefined : `fifo ${JSON.stringify(fifo)}`,
    shards === 1 ? undefined : `shards ${JSON.stringify(shards)}`,
    minimumPollers === undefined ? undefined : 'minimumPollers',
    maximumPollers === undefined ? undefined : 'maximumPollers',
  ].filter((one) => one !== undefined);
  if (others.length === 0) return;
  throw new Error(
    `--apply: expected ${path} to deploy a function behind one standard queue without pollers, got ${others.join(', ')}; ` +
      'set by hand what of the recommendation fits it',
  );
}

/** Where a member of a JSON object stands in its text; ends are exclusive. */
interface JsonMember {
  readonly key: string;
  readonly keyStart: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/**
 * The members of an object in valid JSON text.
 *
 * @param start index of its `{`
 */
function membersOf(text: string, start: number): JsonMember[] {
  const members: JsonMember[] = [];
  let depth = 0;
  let open: Omit<JsonMember, 'valueEnd'> | undefined;
  let last: { readonly token: string; readonly index: number } | undefined;
  TOKEN.lastIndex = start;
  for (let match = TOKEN.exec(text); match !== null; match = TOKEN.exec(text)) {
    const [token] = match;
    const { index } = match;
    const isEnd = depth === 1 && (token === ',' || token === '}');
    if (isEnd && open !== undefined && last !== undefined) {
      members.push({ ...open, valueEnd: last.index + last.token.length });
      open = undefined;
    }
    if (depth === 1 && token === ':' && last !== undefined) {
      open = { key: JSON.parse(last.token), keyStart: last.index, valueStart: -1 };
    } else if (open?.valueStart === -1) open = { ...open, valueStart: index };
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    if (depth === 0) return members;
    last = { token, index };
  }
  return members;
}
