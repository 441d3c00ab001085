import { failureKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import { isJobCode, JobError, type JobStart } from '../../core/job/words.ts';
import { FAILURE, parseObject } from '../schemas.ts';

export interface ExplainEvent {
  readonly action: 'explain';
  readonly start: JobStart & {
    readonly error?: { readonly Error?: string | undefined; readonly Cause?: string | undefined } | undefined;
  };
}

/** Why a job ended without a manifest. */
export interface JobFailure {
  readonly code: string;
  readonly message: string;
}

/** What a call of the job has said of it, before what Step Functions knows: a map says only that one of its children failed. */
export async function explainJob({ start }: ExplainEvent, storage: JobStorage): Promise<JobFailure> {
  const said = await storage.get(failureKey(start.folder));
  if (said !== undefined) return parseObject(FAILURE, said, failureKey(start.folder));
  const { Error: code = 'unknown', Cause: cause = 'the state machine ended without saying why' } = start.error ?? {};
  return { code, message: messageIn(cause) };
}

/** Says why the job cannot go on, for whoever looks, and passes the error on. */
export async function noteFailure(storage: JobStorage, folder: string, error: unknown): Promise<void> {
  if (!(error instanceof JobError) || !isJobCode(error.name)) return;
  const failure: JobFailure = { code: error.name, message: error.message };
  await storage.put(failureKey(folder), JSON.stringify(failure));
}

/** Lambda's errors come as JSON with the message in it. */
function messageIn(cause: string): string {
  try {
    const { errorMessage } = JSON.parse(cause) as { readonly errorMessage?: unknown };
    return typeof errorMessage === 'string' ? errorMessage : cause;
  } catch {
    return cause;
  }
}
