import type { Backlog, Pieces } from './backlog.ts';
import type { Load } from './load.ts';
import { MESSAGES_PER_RECEIVE } from './rules.ts';
import { createTokens } from './tokens.ts';

/** What holds messages back. */
export const REASONS = [
  'the mapping grows',
  'the mapping starts no more',
  'messages in flight',
  'receives',
  'the concurrency of the account',
  'the invocations a second of the account',
  'new environments of the function',
] as const;
export type Reason = (typeof REASONS)[number];

/** Messages move, and the mapping looks, once in so long. */
export const TICK_MS = 10;

/** The event source mapping of one shard, and the function behind it. */
export interface Mapping {
  /** Ends invocations, receives messages and starts invocations. */
  tick(nowMs: number): void;
  readonly inFlight: number;
  readonly running: number;
  readonly concurrency: number;
  readonly throttled: number;
  /** What was done since the last time. */
  endStretch(): { readonly answered: number; readonly batch: number; readonly heldBackBy: Reason | undefined };
}

/** One of the invocations that may be under way: it gathers a batch, and runs. */
interface Slot {
  state: 'gathering' | 'due' | 'refused' | 'running';
  messages: number;
  /** When the first of them was received. */
  sinceMs: number;
  endMs: number;
  readonly pieces: Pieces;
}

/** Of sums of small steps. */
const ROUNDING = 1e-6;
/** What waits for less is not held back: it is received in the next ticks. */
const LATE_MS = 100;

export function createMapping(load: Load, backlog: Backlog, answer: (pieces: Pieces, endMs: number) => void): Mapping {
  const { batchSize, windowMs, environments } = load;
  const { atFirst, perSecond, most } = load.mapping;
  let [concurrency, turn, inFlight, running, warm] = [atFirst, 0, 0, 0, 0];
  const receives = createTokens({
    perSecond: () => Math.min(load.receives.ofQueue, load.receives.ofEach * concurrency),
    atLeast: MESSAGES_PER_RECEIVE,
  });
  const invocations = createTokens({ perSecond: () => load.invocationsPerSecond, atLeast: 1 });
  const newEnvironments = createTokens({ perSecond: () => environments.perSecond, atLeast: environments.atOnce });
  const slots: Slot[] = [];
  const due: Slot[] = [];
  const held = new Map<Reason, number>();
  let [answered, batches, batched, throttled] = [0, 0, 0, 0];

  const allowed = (): number => Math.floor(concurrency + ROUNDING);
  const endRuns = (nowMs: number): void => {
    for (const slot of slots) {
      if (slot.state !== 'running' || slot.endMs > nowMs) continue;
      answer(slot.pieces, slot.endMs);
      answered += slot.messages;
      inFlight -= slot.messages;
      running -= 1;
      slot.pieces.length = 0;
      slot.messages = 0;
      slot.state = 'gathering';
    }
  };
  const receive = (slot: Slot, most: number, nowMs: number): number => {
    const messages = Math.min(most, batchSize - slot.messages);
    if (slot.messages === 0) slot.sinceMs = nowMs;
    backlog.take(messages, slot.pieces);
    slot.messages += messages;
    inFlight += messages;
    receives.take(messages);
    return messages;
  };
  /** Each slot in turn receives once, until nothing is left to receive or nobody to receive it. */
  const receiveAll = (nowMs: number): void => {
    const count = allowed();
    while (slots.length < count) slots.push({ state: 'gathering', messages: 0, sinceMs: 0, endMs: 0, pieces: [] });
    let available = Math.min(backlog.messages, load.messagesInFlight - inFlight, Math.floor(receives.left));
    // Where there is enough for all, one call after the other would end with every batch full.
    const each = available >= roomIn(slots, count) ? batchSize : MESSAGES_PER_RECEIVE;
    for (let passed = 0; available > 0 && passed < count; ) {
      const slot = slots[turn++ % count];
      if (slot?.state === 'gathering' && slot.messages < batchSize) {
        available -= receive(slot, Math.min(each, available), nowMs);
        passed = 0;
      } else passed += 1;
    }
    turn %= count;
  };
  const roomIn = (all: readonly Slot[], count: number): number => {
    let room = 0;
    for (let index = 0; index < count; index++) {
      const slot = all[index];
      if (slot?.state === 'gathering') room += batchSize - slot.messages;
    }
    return room;
  };
  const refusal = (): Reason | undefined => {
    if (running + 1 > load.concurrency) return 'the concurrency of the account';
    if (invocations.left < 1) return 'the invocations a second of the account';
    return running >= warm && newEnvironments.left < 1 ? 'new environments of the function' : undefined;
  };
  const invoke = (slot: Slot, nowMs: number): void => {
    invocations.take(1);
    const cold = running >= warm;
    if (cold) {
      newEnvironments.take(1);
      warm += 1;
    }
    running += 1;
    batches += 1;
    batched += slot.messages;
    slot.state = 'running';
    slot.endMs = nowMs + load.runMs(slot.messages) + (cold ? load.coldMs : 0);
  };
  /** Batches that were refused go first, the oldest before the others. */
  const invokeAll = (nowMs: number): Reason | undefined => {
    for (const slot of slots) {
      const isDue = slot.messages > 0 && (slot.messages >= batchSize || nowMs - slot.sinceMs >= windowMs);
      if (slot.state !== 'gathering' || !isDue) continue;
      slot.state = 'due';
      due.push(slot);
    }
    const invoked = due.findIndex((slot) => {
      if (refusal() !== undefined) return true;
      invoke(slot, nowMs);
      return false;
    });
    due.splice(0, invoked < 0 ? due.length : invoked);
    for (const slot of due) {
      if (slot.state === 'due') throttled += 1;
      slot.state = 'refused';
    }
    return due.length > 0 ? refusal() : undefined;
  };
  const whyWaiting = (): Reason => {
    if (inFlight >= load.messagesInFlight) return 'messages in flight';
    if (receives.left < 1) return 'receives';
    return concurrency < most ? 'the mapping grows' : 'the mapping starts no more';
  };
  return {
    tick(nowMs) {
      for (const tokens of [receives, invocations, newEnvironments]) tokens.pass(TICK_MS / 1000);
      endRuns(nowMs);
      receiveAll(nowMs);
      const refused = invokeAll(nowMs);
      const isWaiting = backlog.messages > 0;
      const isLate = nowMs - backlog.oldestMs >= LATE_MS;
      const reason = refused ?? (isLate ? whyWaiting() : undefined);
      if (reason !== undefined) held.set(reason, (held.get(reason) ?? 0) + 1);
      const change = (perSecond * TICK_MS) / 1000;
      concurrency = isWaiting ? Math.min(most, concurrency + change) : Math.max(atFirst, concurrency - change);
    },
    get inFlight() {
      return inFlight;
    },
    get running() {
      return running;
    },
    get concurrency() {
      return allowed();
    },
    get throttled() {
      return throttled;
    },
    endStretch() {
      const [heldBackBy] = REASONS.filter((reason) => held.has(reason)).toSorted(
        (a, b) => (held.get(b) ?? 0) - (held.get(a) ?? 0),
      );
      const stretch = { answered, batch: batched / batches, heldBackBy };
      [answered, batches, batched] = [0, 0, 0];
      held.clear();
      return stretch;
    },
  };
}
