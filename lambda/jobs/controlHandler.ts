import type { JobStorage } from '../core/job/storage.ts';
import { type ExplainEvent, explainJob, type JobFailure, noteFailure } from './finish/explainJob.ts';
import { type FinishAnswer, type FinishEvent, finishJob } from './finish/finishJob.ts';
import type { Started } from './submit/startJob.ts';
import { isS3Event, type SubmitDependencies, submitEvent } from './submit/submitEvent.ts';

export type ControlEvent = FinishEvent | ExplainEvent | { readonly Records: readonly unknown[] };
export type ControlAnswer = FinishAnswer | JobFailure | readonly Started[];
export type ControlHandler = (event: ControlEvent) => Promise<ControlAnswer>;

/** The function that has no models: it starts jobs when S3 tells of objects, and finishes them. */
export function createControlHandler(deps: SubmitDependencies & { readonly storage: JobStorage }): ControlHandler {
  return async (event) => {
    if (!('action' in event)) {
      if (!isS3Event(event))
        throw new Error('expected an S3 event, or the action finish or explain, got another event');
      return submitEvent(event, deps);
    }
    if (event.action === 'explain') return explainJob(event, deps.storage);
    try {
      return await finishJob(event, deps.storage, Date.now);
    } catch (error) {
      await noteFailure(deps.storage, event.start.folder, error);
      throw error;
    }
  };
}
