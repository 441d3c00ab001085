/** Runs as a process with the environment of a deployed function: invokes its handler, and says what that took. */
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import { handler } from '../../lambda/handler.ts';
import type { HopTask, HopTurn } from '../measure/hops.ts';
import { toPackedRecords } from '../workload/messages.ts';
import { scenarioNamed } from '../workload/scenarios.ts';

const LONGEST_INVOCATION_MS = 60_000;
/** As Node collects garbage when it likes to, a turn is long enough for several times. */
const events = new Map<string, ReturnType<typeof toPackedRecords>>();

async function take({ scenario, requests, encoding, requestsPerMessage, invocations }: HopTask): Promise<HopTurn> {
  const key = `${encoding} ${requestsPerMessage} ${requests}`;
  const Records = events.get(key) ?? toPackedRecords(scenarioNamed(scenario), requests, encoding, requestsPerMessage);
  events.set(key, Records);
  const [cpu, startedAt] = [process.cpuUsage(), performance.now()];
  const takenMs: number[] = [];
  for (let invocation = 0; invocation < invocations; invocation++) {
    const invokedAt = performance.now();
    const { batchItemFailures } = await handler({ Records }, createLambdaContext(Date.now() + LONGEST_INVOCATION_MS));
    takenMs.push(performance.now() - invokedAt);
    if (batchItemFailures.length > 0) {
      throw new Error(`expected every record answered, got ${batchItemFailures.length} to be retried`);
    }
  }
  const { user, system } = process.cpuUsage(cpu);
  return {
    cpuMicroseconds: user + system,
    wallMicroseconds: (performance.now() - startedAt) * 1000,
    invocationsMs: takenMs,
    messageBytes: Records.map(({ body }) => Buffer.byteLength(body)),
  };
}

process.on('message', async (task: HopTask) => {
  process.send?.(await take(task));
});
process.once('disconnect', () => process.exit());
process.send?.('ready');
