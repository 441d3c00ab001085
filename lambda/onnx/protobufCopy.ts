import { type Field, fieldsOf, LENGTH_DELIMITED, type Read } from './protobuf.ts';

/* Copies protobuf messages with other contents in some of their fields. */

/**
 * Copies a message from `from` to before `to`.
 *
 * @param replace returns the new contents of a field, or undefined to copy it
 */
export function rewrite(read: Read, from: number, to: number, replace: (field: Field) => Buffer | undefined): Buffer {
  const parts: Buffer[] = [];
  let copiedTo = from;
  let at = from;
  for (const field of fieldsOf(read, { start: from, end: to })) {
    const fieldStart = at;
    at = field.end;
    const content = replace(field);
    if (content === undefined) continue;
    parts.push(copyOf(read, copiedTo, fieldStart), lengthDelimited(field.number, content));
    copiedTo = field.end;
  }
  return Buffer.concat([...parts, copyOf(read, copiedTo, to)]);
}

export function isAt(field: Field, number: number): boolean {
  return field.number === number && field.wireType === LENGTH_DELIMITED;
}

/** Copied, because the reader reuses its memory. */
export function copyOf(read: Read, from: number, to: number): Buffer {
  return Buffer.from(read(from, to - from));
}

export function lengthDelimited(number: number, content: Buffer): Buffer {
  return Buffer.concat([varint((number << 3) | 2), varint(content.length), content]);
}

export function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}
