/** What became of messages: how old they were when they were answered, and with how many others they were. */
export interface Course {
  /** From its arrival to the end of its invocation: of half of the messages, and of all but the oldest hundredth. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** How many invocations had so many messages, by their number. */
  readonly sizes: ReadonlyMap<number, number>;
  readonly messages: number;
  readonly invocations: number;
}

export interface Tally {
  /** @param members messages of an invocation, as indexes of their arrivals, in order */
  add(members: readonly number[], endMs: number): void;
  course(): Course;
}

/** @param from messages before it are left out: the queue had not settled */
export function createTally(arrivals: Float64Array, from: number): Tally {
  const ages = new Float64Array(arrivals.length);
  const sizes = new Map<number, number>();
  let [messages, invocations, seen] = [0, 0, 0];
  return {
    add(members, endMs) {
      if ((members.at(-1) as number) < from) return;
      for (const index of members) {
        if (index >= from) ages[seen++] = endMs - (arrivals[index] as number);
      }
      sizes.set(members.length, (sizes.get(members.length) ?? 0) + 1);
      messages += members.length;
      invocations += 1;
    },
    course() {
      const sorted = ages.subarray(0, seen).sort();
      return { p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99), sizes, messages, invocations };
    },
  };
}

/** The value that a share of the sorted values does not exceed; NaN of none. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
