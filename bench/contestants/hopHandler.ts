/** Runs as a process with the environment of a deployed function: invokes its handler, and says what that took. */
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import { handler } from '../../lambda/handler.ts';
import { answerParent, cpuMicroseconds } from '../harness/child.ts';
import type { HopTask, HopTurn } from '../measure/hops.ts';
import { toPackedRecords } from '../workload/messages.ts';

const LONGEST_INVOCATION_MS = 60_000;
const events = new Map<string, ReturnType<typeof toPackedRecords>>();

async function take({ requests, invocations, lookUps, ...packing }: HopTask): Promise<HopTurn> {
  const key = JSON.stringify({ requests, ...packing });
  const Records = events.get(key) ?? toPackedRecords(requests, packing, lookUps === undefined);
  events.set(key, Records);
  const [cpu, startedAt] = [cpuMicroseconds(), performance.now()];
  for (let invocation = 0; invocation < invocations; invocation++) {
    const { batchItemFailures } = await handler({ Records }, createLambdaContext(Date.now() + LONGEST_INVOCATION_MS));
    if (batchItemFailures.length > 0) {
      throw new Error(`expected every record answered, got ${batchItemFailures.length} to be retried`);
    }
  }
  return { cpuMicroseconds: cpuMicroseconds() - cpu, wallMicroseconds: (performance.now() - startedAt) * 1000 };
}

answerParent(take);
