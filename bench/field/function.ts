/** Runs as a process: an environment of a function, whose handler's module is named on the command line. */
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import { answerParent } from '../harness/child.ts';

const [script = ''] = process.argv.slice(2);
const { handler } = await import(script);

answerParent(async ({ event, remainingMs }: { event: unknown; remainingMs: number }) => {
  try {
    return (await handler(event, createLambdaContext(Date.now() + remainingMs))) ?? {};
  } catch (error) {
    return { error: String(error) };
  }
});
