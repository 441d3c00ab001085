import { messageOf } from '../../../lambda/core/failure.ts';

/** An error as Step Functions names it: states retry and catch it by its name. */
export class StateError extends Error {
  readonly error: string;
  readonly text: string;

  constructor(error: string, text: string) {
    super(`${error}: ${text}`);
    this.name = 'StateError';
    this.error = error;
    this.text = text;
  }
}

/** What cannot be tried again: an input that a state's fields do not fit. */
export const RUNTIME = 'States.Runtime';

/** What a function throws, as Lambda tells of it: JSON with the message in it. */
export function errorOfFunction(thrown: unknown): StateError {
  const errorType = thrown instanceof Error ? thrown.name : 'Error';
  return new StateError(errorType, JSON.stringify({ errorType, errorMessage: messageOf(thrown) }));
}

/** Whether an `ErrorEquals` means an error. `States.ALL` stands for all but those that no state may catch. */
export function means(errorEquals: readonly string[], { error }: StateError): boolean {
  return errorEquals.includes(error) || (errorEquals.includes('States.ALL') && error !== RUNTIME);
}
