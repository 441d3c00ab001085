import type { JobStorage } from '../core/job/storage.ts';
import type { JobHead } from '../core/job/words.ts';
import type { ModelRepository } from '../core/model.ts';
import type { Observer } from '../core/observer.ts';
import type { ScoringLimits } from '../core/score.ts';
import { noteFailure } from './finish/explainJob.ts';
import { type PlanAnswer, type PlanEvent, planJob } from './plan/planJob.ts';
import { readHead } from './plan/planObjects.ts';
import { openReader } from './read/openReader.ts';
import { type ScoreEvent, scorePart } from './score/scorePart.ts';
import { type SkipEvent, skipPiece } from './score/skipPiece.ts';
import { createRowScoring, MOST_CHARACTERS_HELD, type RowScoring } from './scoreRows.ts';

export interface ScoreHandlerDependencies {
  readonly storage: (bucket: string) => JobStorage;
  readonly models: ModelRepository;
  readonly limits: ScoringLimits;
  readonly checkPercent: number;
  readonly partBytes: number;
  readonly pieceBytes: number;
  /** A line of more bytes is refused as a row. */
  readonly mostLineBytes: number;
  readonly observer: Partial<Observer>;
  /** The runs that were left behind and have not ended. */
  readonly stuckRuns: () => ReadonlySet<object>;
  /** Ends the process: its call fails, and is made again by another. */
  readonly endHost: (reason: string) => Promise<never>;
}

export type JobEvent = PlanEvent | ScoreEvent | SkipEvent;
/** What of Lambda's context is used. */
export type CallTime = { readonly getRemainingTimeInMillis: () => number };
export type ScoreHandler = (event: JobEvent, context: CallTime) => Promise<PlanAnswer | ScoreEvent>;

/** The function that has the models: it plans jobs, scores their parts, and passes over pieces that end it. */
export function createScoreHandler(deps: ScoreHandlerDependencies): ScoreHandler {
  const scoringOf = keepEach((head: JobHead) => `${head.model}/${head.version}`, scoringFor(deps));
  const answer = async (event: JobEvent, context: CallTime): Promise<PlanAnswer | ScoreEvent> => {
    if (event.action === 'plan') {
      const { models, partBytes, pieceBytes } = deps;
      const storage = deps.storage(event.start.bucket);
      return planJob(event, { storage, models, partBytes, pieceBytes, now: Date.now });
    }
    const storage = deps.storage(event.bucket);
    const head = await readHead(storage, event.folder);
    if (head === undefined) throw new Error(`${event.folder}: expected a job that was planned, got no plan`);
    if (event.action === 'skip') return skipPiece(event, storage, head);
    if (deps.stuckRuns().size > 0)
      await deps.endHost('a run that was left behind in an earlier call has not ended since');
    const reader = openReader(storage, head, event.part, deps.mostLineBytes);
    return scorePart(event, { storage, head, reader, scoring: scoringOf(head) }, timeOf(context));
  };
  return async (event, context) => {
    try {
      return await answer(event, context);
    } catch (error) {
      const [bucket, folder] =
        event.action === 'plan' ? [event.start.bucket, event.start.folder] : [event.bucket, event.folder];
      await noteFailure(deps.storage(bucket), folder, error);
      throw error;
    }
  };
}

/** Requests that name no model mean the job's, in the version that the job was planned with. */
function scoringFor({ models, limits, checkPercent, observer }: ScoreHandlerDependencies) {
  return ({ model, version }: JobHead): RowScoring => {
    const find: ModelRepository['find'] = (name = model, asked) =>
      models.find(name, asked ?? (name === model ? version : undefined));
    const mostCharacters = MOST_CHARACTERS_HELD;
    return createRowScoring({ models: { find }, limits, checkPercent, observer, mostCharacters });
  };
}

/** What was learnt of a model's runs is kept from call to call; one for each version of a model. */
function keepEach<K, V>(nameOf: (key: K) => string, create: (key: K) => V): (key: K) => V {
  const values = new Map<string, V>();
  return (key) => {
    const name = nameOf(key);
    const value = values.get(name) ?? create(key);
    values.set(name, value);
    return value;
  };
}

function timeOf(context: CallTime) {
  return { remainingMs: () => context.getRemainingTimeInMillis(), signal: new AbortController().signal };
}
