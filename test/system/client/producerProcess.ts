import { Batchscore } from '../../../client/index.ts';

/**
 * A producer in a process of its own, with AWS clients that it creates itself. Arguments: `submit`, `score` or `collect`,
 * and the URLs of the request queue and of the result queue. It prints the scores that came, or why none did, as JSON.
 */
const [command, requestQueueUrl = '', resultQueueUrl] = process.argv.slice(2);
await using client = new Batchscore({ requestQueueUrl, resultQueueUrl });
const inputs = { x: { data: Float32Array.of(1), shape: [1, 1] } };

try {
  if (command === 'score') {
    const { y } = await client.score(inputs);
    print(y?.data);
  } else {
    const messageIds = command === 'submit' ? await client.submit([{ inputs }]) : ['m-1'];
    for await (const result of client.collect(messageIds, { timeoutMs: 20_000 })) {
      if ('outputs' in result) print(result.outputs.y?.data);
    }
  }
} catch (error) {
  print(String(error));
}

function print(value: unknown): void {
  process.stdout.write(JSON.stringify(value));
}
