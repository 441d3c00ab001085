// One execution environment of a function: imports an entry of an image's folder, and calls it with all that its parent sends.
import { join } from 'node:path';
import { createLambdaContext } from '../../../cli/local/lambdaContext.ts';

const [folder = '', command = ''] = process.argv.slice(2);
const [file, name = ''] = command.split('.');

process.on('disconnect', () => process.exit());
try {
  const { [name]: handler } = await import(join(folder, `${file}.js`));
  process.on('message', async ({ event, deadlineMs }: { event: unknown; deadlineMs: number }) => {
    try {
      process.send?.({ body: await handler(event, createLambdaContext(deadlineMs)) });
    } catch (error) {
      process.send?.({ failure: failureOf(error) });
    }
  });
  process.send?.({});
} catch (error) {
  process.send?.({ failure: failureOf(error) });
}

/** As Lambda tells its callers. */
function failureOf(error: unknown) {
  return error instanceof Error
    ? { errorType: error.name, errorMessage: error.message }
    : { errorType: typeof error, errorMessage: String(error) };
}
