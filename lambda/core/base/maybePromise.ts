/**
 * A value, or the promise of one where something has to be waited for. Awaiting what is there already would cost more
 * than decoding it, ten thousand times over.
 */
export type MaybePromise<T> = T | Promise<T>;

/** `next` of the value, at once where the value is there at once. */
export function whenThere<T, U>(soon: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return soon instanceof Promise ? soon.then(next) : next(soon);
}

/** `Promise.all`, at once where all are there. */
export function allThere<T>(soon: MaybePromise<T>[]): MaybePromise<T[]> {
  return soon.some((one) => one instanceof Promise) ? Promise.all(soon) : (soon as T[]);
}
