/** Runs as a thread: makes the calls of SQS that it is sent. */
import { parentPort, workerData } from 'node:worker_threads';
import type { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { createSqsCaller } from './sqsCalls.ts';
import { type CallMessage, type CallReply, COMMANDS, READY, toPortable } from './sqsThreads.ts';

const sqs = createSqsCaller(workerData);
/** Never aborted: calls with one signal share their middleware. */
const { signal: abortSignal } = new AbortController();
const reply = (message: CallReply): void => parentPort?.postMessage(message);

parentPort?.on('message', async ({ id, operation, input }: CallMessage) => {
  try {
    // The types of whoever sent it have checked that command and input match.
    const command = new (COMMANDS[operation] as new (input: object) => ReceiveMessageCommand)(input);
    const { $metadata: _, ...output } = await sqs.send(command, { abortSignal });
    reply({ id, output });
  } catch (error) {
    reply({ id, error: toPortable(error) });
  }
});
reply(READY);
