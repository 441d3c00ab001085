import { createLane, type Lane } from '../base/lane.ts';
import { within } from '../base/within.ts';
import type { Model } from '../contract/model.ts';

/** How many micro-batches of a model stand between stack and write at most, for each of its cards. */
const MICRO_BATCHES_IN_A_LANE = 2;

const CATCHING_UP_MS = 20;

/** The runs of one invocation. Each model has threads of its own: a slow one does not hold up the others. */
export interface Schedule {
  /** Takes work on a micro-batch as soon as there is room for it in its model's lane. Does not wait for it. */
  add(model: Model, work: () => Promise<void>): void;
  /**
   * Waits until all work is started, for some milliseconds at most: requests that are decoded long before they are run
   * outlive V8's young memory, which costs a tenth of the time. A slow or hung model holds nothing up for longer.
   */
  catchUp(): Promise<void>;
  /** Waits until all the work is done. */
  drained(): Promise<void>;
  /** Milliseconds until a card of the model has ended the runs that are under way, as far as that is known. */
  busyMs(model: Model): number;
  /** Notes a run that begins, expected to take so long. @returns to be called when it has ended */
  begin(model: Model, expectedMs: number): () => void;
}

interface ModelRuns {
  readonly lane: Lane;
  readonly cards: readonly CardRuns[];
}

/** Which card a run will really have is not known before: it is taken to be the one that is free first. */
interface CardRuns {
  running: number;
  /** When the runs under way are expected to have ended. */
  freeAt: number;
}

/** @param now a clock that never goes back, in milliseconds */
export function createSchedule(now: () => number): Schedule {
  const models = new Map<Model, ModelRuns>();
  const runsOf = (model: Model): ModelRuns => {
    const known = models.get(model) ?? newRuns(model);
    models.set(model, known);
    return known;
  };
  const busyMs = ({ running, freeAt }: CardRuns): number => (running === 0 ? 0 : Math.max(0, freeAt - now()));
  const freeFirst = (model: Model): CardRuns =>
    runsOf(model).cards.reduce((first, card) => (busyMs(card) < busyMs(first) ? card : first));
  return {
    add: (model, work) => runsOf(model).lane.add(work),
    async catchUp() {
      const behind = [...models.values()].filter(({ lane }) => lane.isBehind());
      if (behind.length === 0) return;
      await within(
        CATCHING_UP_MS,
        Promise.all(behind.map(({ lane }) => lane.caughtUp())).then(() => {}),
      );
    },
    drained: async () => void (await Promise.all([...models.values()].map(({ lane }) => lane.drained()))),
    busyMs: (model) => busyMs(freeFirst(model)),
    begin(model, expectedMs) {
      const card = freeFirst(model);
      card.freeAt = now() + busyMs(card) + expectedMs;
      card.running += 1;
      return () => {
        card.running -= 1;
      };
    },
  };
}

function newRuns({ cards = 1 }: Model): ModelRuns {
  return {
    lane: createLane(MICRO_BATCHES_IN_A_LANE * cards),
    cards: Array.from({ length: cards }, () => ({ running: 0, freeAt: 0 })),
  };
}
