/** A Lambda execution environment in small: imports the entry, and invokes it with every event that its parent sends. */
import { lambdaContext } from '../helpers/sqsEvents.ts';

const { handler } = await import('../../lambda/handler.ts');
process.on('message', async (event: Parameters<typeof handler>[0]) => {
  process.send?.(await handler(event, lambdaContext()));
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
