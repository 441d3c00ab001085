/** Where a request is: in a message of its own, or at a position of a packed one. */
export interface RequestPlace {
  readonly messageId: string;
  /** From 0 on; undefined for a message as a whole. */
  readonly position: number | undefined;
}

/** The ID of a request of a packed message: `<message ID>/<position>`. */
export function idInPacked(messageId: string, position: number): string {
  return `${messageId}/${position}`;
}

/** The messages of these IDs, each once. @throws TypeError as {@link placeOf} does */
export function messageIdsOf(ids: Iterable<string>): Set<string> {
  return new Set(Array.from(ids, (id) => placeOf(id).messageId));
}

const ID = /^([^/]+)(?:\/(0|[1-9]\d{0,8}))?$/;

/** @throws TypeError when an ID is none that `submit` gives */
export function placeOf(id: string): RequestPlace {
  const [, messageId, position] = ID.exec(id) ?? [];
  if (messageId !== undefined) {
    return { messageId, position: position === undefined ? undefined : Number(position) };
  }
  throw new TypeError(
    "expected a message ID, or '<message ID>/<position>' for a request of a packed message, got " +
      `${JSON.stringify(id)}; give the IDs as submit returned them`,
  );
}
