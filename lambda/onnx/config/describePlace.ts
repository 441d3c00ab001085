/**
 * What kind of error it is and where it was made, such as `TypeError at decode (transform.ts:12:5)`. Its message is left
 * out: it may quote a request, and goes to a log.
 */
export function describePlace(error: unknown): string {
  if (!(error instanceof Error)) return `${error === null ? 'null' : typeof error}, which is no Error`;
  const frames = (error.stack ?? '').replace(error.message, '').split('\n');
  const first = frames.find((line) => /^\s+at /.test(line)) ?? 'at a place that it does not name';
  return `${error.name} ${first.trim()}`;
}
