import { Logger } from '@aws-lambda-powertools/logger';

/**
 * Logs why a host cannot start, or go on, as one line of JSON, like everything else in its log. The runtime of a function
 * logs it once more, in the format that the function's logging configuration says.
 *
 * @param what such as `the function cannot start`
 * @param serviceName what the environment says, as the configuration may be what is wrong
 */
export function logFatal(what: string, error: unknown, serviceName = 'batchscore'): void {
  const cause = error instanceof Error ? error : new Error(String(error));
  new Logger({ serviceName }).critical(what, cause);
}

/** Logs the warnings of Node and of packages as JSON, where Node would print them as text. */
export function logWarnings(logger: Logger): void {
  process.removeAllListeners('warning');
  process.on('warning', ({ name, message }) => logger.warn('a warning of Node', { name, reason: message }));
}
