/** A Lambda execution environment of the function that scores jobs: calls it with every event that its parent sends. */
import { handler } from '../../../lambda/jobScore.ts';
import type { JobEvent } from '../../../lambda/jobs/scorePart.ts';

const CALL_MS = 60_000;

process.on('message', async (event: JobEvent) => {
  const endsAt = Date.now() + CALL_MS;
  process.send?.(await handler(event, { getRemainingTimeInMillis: () => endsAt - Date.now() }));
});
process.on('disconnect', () => process.exit());
