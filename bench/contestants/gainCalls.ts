/** Process that starts a contestant and reports the durations of its first calls. */
import { join } from 'node:path';
import type { SQSRecord } from 'aws-lambda';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { answerParent } from '../harness/child.ts';
import { timed } from '../harness/turns.ts';
import type { CallTask, CallTimes } from '../measure/scenario.ts';
import { drawMessages, toRecords } from '../workload/messages.ts';
import { scenarioNamed } from '../workload/scenarios.ts';
import { createBareSession, scoreBare } from './bareSession.ts';
import { openBatchscore } from './openBatchscore.ts';

/** Warm-up runs of the bare session. Batchscore has run its model before its first message, so the others do too. */
const BARE_WARM_UP = 5;

async function measure({ contestant, modelsDirectory, scenario, provider, ...task }: CallTask): Promise<CallTimes> {
  const messages = [...drawMessages(scenarioNamed(scenario), task.messages)];
  const records = toRecords(messages, 'binary');
  if (contestant === 'bare') {
    const session = await createBareSession(join(modelsDirectory, scenario, '1', 'model.onnx'), provider);
    const scoreAll = async (some: readonly SQSRecord[]): Promise<void> => {
      for (const record of some) await scoreBare(record, scenario, session);
    };
    await scoreAll(records.slice(0, BARE_WARM_UP));
    return twice(() => scoreAll(records));
  }
  const batchscore = await openBatchscore(modelsDirectory, scenario, {
    [CONFIG_KEYS.providers]: provider,
    ...(contestant === 'rowsAlone' && { [CONFIG_KEYS.maxBatchRows]: '1' }),
  });
  return twice(() => batchscore.invoke(records));
}

async function twice(call: () => Promise<void>): Promise<CallTimes> {
  return [await timed(call)(), await timed(call)()];
}

answerParent(measure);
