/** The path of a request that is the whole body. */
export const WHOLE_BODY = 'body';

/** The path of a request's field in messages: `inputs`, or `[3].inputs` inside a packed message. */
export function fieldOf(path: string, field: string): string {
  return path.startsWith('[') ? `${path}.${field}` : field;
}

/** The path of a field, or of its element at a position, one index per axis. Built only when a message needs it. */
export type PathOf = (position: readonly number[]) => string;

export function pathWithin(path: string): PathOf {
  return (position) => path + position.map((index) => `[${index}]`).join('');
}
