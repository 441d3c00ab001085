/** Process that starts a contestant and reports the durations of its first calls. */
import { join } from 'node:path';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import { SILENT } from '../../lambda/core/observer.ts';
import type { Outcome, ResultWriter } from '../../lambda/core/record.ts';
import { compose } from '../../lambda/hosts/compose.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler } from '../../lambda/hosts/createHandler.ts';
import { turnRuntimeTelemetryOff } from '../../lambda/onnx/session.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { answerParent } from '../harness/child.ts';
import { timed } from '../harness/turns.ts';
import type { CallTask, CallTimes } from '../measure/scenario.ts';
import { drawMessages, toBase64, toRecords } from '../workload/messages.ts';
import { scenarioNamed } from '../workload/scenarios.ts';

answerParent(async (task: CallTask): Promise<CallTimes> => {
  const records = toRecords(drawMessages(scenarioNamed(task.scenario), task.messages), 'binary');
  const score = task.contestant === 'bare' ? await openBare(task, records) : await openBatchscore(task);
  return [await timed(() => score(records))(), await timed(() => score(records))()];
});

/** Scores records. @throws Error if one is not answered with scores */
type Score = (records: SQSRecord[]) => Promise<void>;

const LONGEST_INVOCATION_MS = 900_000;
const NO_QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/none';

/** Opens the handler without queues. Results are written to memory, and there is no telemetry. */
async function openBatchscore({ modelsDirectory, scenario, provider, contestant }: CallTask): Promise<Score> {
  const config = loadConfig({
    [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
    [CONFIG_KEYS.defaultModel]: scenario,
    [CONFIG_KEYS.preload]: 'false',
    [CONFIG_KEYS.requestQueueUrls]: NO_QUEUE,
    [CONFIG_KEYS.resultQueueUrl]: `${NO_QUEUE}-of-results`,
    [CONFIG_KEYS.providers]: provider,
    ...(contestant === 'rowsAlone' && { [CONFIG_KEYS.maxBatchRows]: '1' }),
  });
  const telemetry = { observer: { ...SILENT, problem: rethrow }, outcomes: refuseUnscored, middlewares: [] };
  const { scoring } = await compose(config, {
    clients: { sqs: new SQSClient({ region: 'eu-central-1' }), s3: refuse },
    telemetry,
    warn: (message) => void process.stderr.write(`${message}\n`),
  });
  const handler = createHandler({
    scoring: { ...scoring, writer: createConsumingWriter() },
    delayRetries: async () => {},
    telemetry,
  });
  return async (Records) => {
    await handler({ Records }, createLambdaContext(Date.now() + LONGEST_INVOCATION_MS));
  };
}

function refuseUnscored(outcomes: readonly Outcome[]): void {
  for (const outcome of outcomes) {
    const failed = outcome.status === 'retry' ? outcome.failure : outcome.failures[0];
    if (failed !== undefined)
      throw new Error(`expected scores for every record, got ${failed.code}: ${failed.message}`);
  }
}

function rethrow(error: unknown): never {
  throw error;
}

function refuse(): never {
  throw new Error('expected results to go to memory only');
}

const LARGEST_RESULT_BYTES = 4 * 1024 * 1024;

/** Creates a writer that accepts every result and keeps none. It encodes each body to bytes, as every store does. */
function createConsumingWriter(): ResultWriter {
  const sink = Buffer.allocUnsafe(LARGEST_RESULT_BYTES);
  return {
    async write(results) {
      for (const { body } of results) sink.write(body);
      return results.map(() => ({ written: true as const }));
    },
  };
}

/** Warm-up runs of the bare session. Batchscore has run its model before its first message, so the others do too. */
const BARE_WARM_UP = 5;

/** Opens an ONNX Runtime session on this thread, which scores one record after the other, as a simple handler would. */
async function openBare({ modelsDirectory, scenario, provider }: CallTask, all: readonly SQSRecord[]): Promise<Score> {
  turnRuntimeTelemetryOff();
  const path = join(modelsDirectory, scenario, '1', 'model.onnx');
  const session = await InferenceSession.create(path, { executionProviders: [provider] });
  const score: Score = async (records) => {
    for (const record of records) await scoreBare(record, scenario, session);
  };
  await score(all.slice(0, BARE_WARM_UP));
  return score;
}

interface BareRequest {
  readonly id: string;
  readonly inputs: readonly { readonly name: string; readonly datatype: string; readonly shape: number[] }[];
  readonly raw_input_contents: readonly string[];
}

/** @returns the text of the answer */
async function scoreBare({ messageId, body }: SQSRecord, model: string, session: InferenceSession): Promise<string> {
  const { id, inputs, raw_input_contents: raw } = JSON.parse(body) as BareRequest;
  const feeds = inputs.map(({ name, datatype, shape }, index) => {
    const { buffer } = new Uint8Array(Buffer.from(raw[index] as string, 'base64'));
    const isInteger = datatype === 'INT64';
    return [
      name,
      isInteger
        ? new Tensor('int64', new BigInt64Array(buffer), shape)
        : new Tensor('float32', new Float32Array(buffer), shape),
    ];
  });
  const outputs = Object.entries(await session.run(Object.fromEntries(feeds)));
  return JSON.stringify({
    message_id: messageId,
    id,
    model_name: model,
    model_version: '1',
    outputs: outputs.map(([name, { dims }]) => ({ name, datatype: 'FP32', shape: dims })),
    raw_output_contents: outputs.map(([, { data }]) => toBase64(data as Float32Array)),
  });
}
