/** Where a member of a JSON object stands in its text; ends are exclusive. */
export interface JsonMember {
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
export function membersOf(text: string, start: number): JsonMember[] {
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
