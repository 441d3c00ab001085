// Health check of the worker's container, which has no curl. It exits with 0 if the worker is ready, else with 1.
import { get } from 'node:http';
import { CONFIG_KEYS } from '../settings.ts';

/** With the start of Node it is below 2 seconds, the shortest timeout of a check in ECS. */
const ANSWER_MS = 1_500;

const port = process.env[CONFIG_KEYS.healthPort];
process.exitCode = 1;
const signal = AbortSignal.timeout(ANSWER_MS);
get({ host: '127.0.0.1', port, path: '/ready', signal }, (response) => {
  response.resume();
  if (response.statusCode === 200) process.exitCode = 0;
  else console.error(`expected the worker to be ready, got ${response.statusCode}`);
}).on('error', () => {
  const why = signal.aborted ? `no answer within ${ANSWER_MS} ms` : 'nobody there';
  console.error(`expected the worker to answer on port ${port} of 127.0.0.1, got ${why}`);
});
