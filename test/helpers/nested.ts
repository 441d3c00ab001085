/** A tensor's elements, nested as its shape says; an element where it has no axis. */
export type Nested<T> = T | Nested<T>[];

export function nest<T>(elements: readonly T[], shape: readonly number[]): Nested<T> {
  const [size, ...inner] = shape;
  if (size === undefined) return elements[0] as T;
  const each = elements.length / size;
  return Array.from({ length: size }, (_, index) => nest(elements.slice(index * each, (index + 1) * each), inner));
}

/** Slice `row` along `axis`, without that axis. */
export function sliceAt<T>(nested: Nested<T>, axis: number, row: number): Nested<T> {
  const outer = nested as Nested<T>[];
  return axis === 0 ? (outer[row] as Nested<T>) : outer.map((inner) => sliceAt(inner, axis - 1, row));
}
