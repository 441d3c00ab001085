/** Runs as the process of `callInFreshProcess`: takes the task as its argument, writes the milliseconds to stdout. */
import { join } from 'node:path';
import type { SQSRecord } from 'aws-lambda';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createBareSession, scoreBare } from '../contestants/bareSession.ts';
import { openBatchscore } from '../contestants/openBatchscore.ts';

import { stackParts } from '../contestants/partitions.ts';
import { drawMessages, toRecords } from '../workload/messages.ts';
import { scenarioNamed } from '../workload/scenarios.ts';
import { timed } from './contest.ts';
import type { CallTask } from './gains.ts';

const CALLS = 2;
/** Batchscore has run its model when it takes the first message; so have the others. */
const BARE_WARM_UP = 5;

async function measure(task: CallTask): Promise<number[]> {
  const messages = [...drawMessages(scenarioNamed(task.scenario), task.messages)];
  const records = toRecords(messages, task.encoding);
  switch (task.contestant) {
    case 'batchscore':
      return callHandler(task, records, {});
    case 'rowsAlone':
      return callHandler(task, records, { [CONFIG_KEYS.maxBatchRows]: '1' });
    case 'bare': {
      const session = await createBareSession(join(task.modelsDirectory, task.scenario, '1', 'model.onnx'));
      const scoreAll = async (some: readonly SQSRecord[]): Promise<void> => {
        for (const record of some) await scoreBare(record, task.encoding, task.scenario, session);
      };
      await scoreAll(records.slice(0, BARE_WARM_UP));
      const alone = await timeCalls(() => scoreAll(records));
      const runs = stackParts(task.parts, messages);
      const runAll = async (): Promise<void> => {
        for (const feeds of runs) await session.run(feeds);
      };
      return [...alone, ...(await timeCalls(runAll))];
    }
  }
}

async function callHandler(
  { modelsDirectory, scenario }: CallTask,
  records: SQSRecord[],
  variables: Readonly<Record<string, string>>,
): Promise<number[]> {
  const batchscore = await openBatchscore(modelsDirectory, scenario, variables);
  const taken = await timeCalls(() => batchscore.invoke(records));
  await batchscore.close();
  return taken;
}

async function timeCalls(call: () => Promise<void>): Promise<number[]> {
  const taken: number[] = [];
  for (let calls = 0; calls < CALLS; calls++) taken.push(await timed(call)());
  return taken;
}

process.stdout.write(JSON.stringify(await measure(JSON.parse(process.argv[2] ?? '{}'))));
