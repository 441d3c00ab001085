import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  type QueueAttributeName,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { putModel } from '../../contract/cli/models.ts';
import { type DevStack, type RunningDev, runScript, startDev } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { identityModel, turningModel, unloadableModel } from '../../helpers/onnxModels.ts';

const PIXELS = Array.from({ length: 64 }, (_, index) => index % 17);
const IMAGE = { name: 'image', datatype: 'FP32', shape: [1, 64], data: PIXELS };

/** A client such as anyone would make: just the endpoint, the region and some credentials. */
function anyClient({ endpoint, region }: DevStack): SQSClient {
  return new SQSClient({ endpoint, region, credentials: { accessKeyId: 'any', secretAccessKey: 'any' } });
}

async function sendAll(sqs: SQSClient, queueUrl: string, bodies: readonly string[]): Promise<string[]> {
  const Entries = bodies.map((MessageBody, index) => ({ Id: String(index), MessageBody }));
  const { Successful = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
  return bodies.map((_, index) => Successful.find(({ Id }) => Id === String(index))?.MessageId ?? '');
}

async function receiveResults(sqs: SQSClient, queueUrl: string, count: number): Promise<Map<string, unknown>> {
  const results = new Map<string, unknown>();
  while (results.size < count) {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: 10,
        WaitTimeSeconds: 5,
        MessageAttributeNames: ['All'],
      }),
    );
    for (const { MessageAttributes, Body = '', ReceiptHandle } of Messages) {
      results.set(MessageAttributes?.messageId?.StringValue ?? '', JSON.parse(Body));
      await sqs.send(new DeleteMessageCommand({ QueueUrl: queueUrl, ReceiptHandle }));
    }
  }
  return results;
}

/** Waits until a message is being handled. */
async function untilTaken(sqs: SQSClient, QueueUrl: string): Promise<void> {
  for (let inFlight = '0'; inFlight === '0'; ) {
    const AttributeNames: QueueAttributeName[] = ['ApproximateNumberOfMessagesNotVisible'];
    const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames }));
    inFlight = Attributes?.ApproximateNumberOfMessagesNotVisible ?? '0';
  }
}

describe('npm run dev', () => {
  let dev: RunningDev;
  let sqs: SQSClient;
  beforeEach(async () => {
    dev = await startDev(['--batch-size', '5', '--window', '0']);
    sqs = anyClient(dev.stack);
  });
  afterEach(async () => {
    sqs.destroy();
    await dev.interrupt();
  });

  it("answers anyone's messages under their IDs, broken ones too, and leaves the dead-letter queue empty", async () => {
    const { requestQueueUrl, resultQueueUrl, deadLetterQueueUrl } = dev.stack;
    const bodies = [
      JSON.stringify({ id: 'a', inputs: [IMAGE], outputs: [{ name: 'label' }] }),
      'not JSON',
      JSON.stringify({ id: 'b', model_name: 'tickets', text: 'I was charged twice' }),
      JSON.stringify({ id: 'c', inputs: [{ ...IMAGE, shape: [1, 63] }] }),
    ];
    const ids = await sendAll(sqs, requestQueueUrl, bodies);
    const results = await receiveResults(sqs, resultQueueUrl, bodies.length);
    expect(ids.map((id) => results.get(id))).toEqual([
      expect.objectContaining({ message_id: ids[0], id: 'a', outputs: [expect.objectContaining({ name: 'label' })] }),
      expect.objectContaining({ message_id: ids[1], code: 'INVALID_JSON' }),
      expect.objectContaining({ message_id: ids[2], id: 'b', result: { tickets: [expect.any(Object)] } }),
      expect.objectContaining({ message_id: ids[3], id: 'c', code: 'INVALID_SHAPE' }),
    ]);
    const { Attributes } = await sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: deadLetterQueueUrl, AttributeNames: ['ApproximateNumberOfMessages'] }),
    );
    expect(Attributes?.ApproximateNumberOfMessages).toBe('0');
  });
});

describe('npm run dev, stopping and failing', () => {
  const inFolder = useFolder();

  it('says in a few lines what it is good for, and ends with exit code 0 on Ctrl-C', async () => {
    const dev = await startDev();
    await dev.says(/^ready for digits\/1, tickets\/1; Ctrl-C stops$/);
    await dev.says(new RegExp(`^ {2}look {3}${dev.stack.page} in a browser$`));
    await dev.says(/^ {2}batch {2}up to 100 messages, or those of 1 s$/);
    expect(await dev.interrupt()).toBe(0);
  });

  it('takes Ctrl-C for one press when npm passes it on, after the terminal', async () => {
    const passOn = "process.once('SIGINT',()=>setTimeout(()=>process.kill(process.pid,'SIGINT'),10))";
    const dev = await startDev([], { env: { NODE_OPTIONS: `--import data:text/javascript,${passOn}` } });
    dev.send('SIGINT');
    expect(await dev.ended).toEqual({ code: 0, signal: null });
  });

  it('waits for a run that hangs on the first Ctrl-C, saying so, and ends at once on the second', async () => {
    await putModel(inFolder(), 'turning', turningModel());
    const dev = await startDev(['--models', inFolder(), '--batch-size', '1', '--window', '0']);
    const sqs = anyClient(dev.stack);
    await sendAll(sqs, dev.stack.requestQueueUrl, ['{"instances":[4000000000000]}']);
    await untilTaken(sqs, dev.stack.requestQueueUrl);
    sqs.destroy();
    dev.send('SIGINT');
    await dev.says(/finishing what was received, .*; Ctrl-C again leaves at once/);
    dev.send('SIGINT');
    expect(await dev.ended).toEqual({ code: null, signal: 'SIGINT' });
  });

  it('refuses a variable that there is not, and names the one that is meant', async () => {
    const env = { BATCHSCORE_BATCHSIZE: '5' };
    const { code, stderr } = await runScript('cli/dev.ts', ['--port', '0', '--no-function'], { env });
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/BATCHSCORE_BATCHSIZE: expected .*did you mean BATCHSCORE_BATCH_SIZE, .*\?/);
  });

  it('is ready for the models that are served, tells once why another is not, and answers requests for that', async () => {
    for (const name of ['good', 'cut']) await putModel(inFolder(), name, identityModel());
    await putModel(inFolder(), 'unloadable', unloadableModel());
    await writeFile(inFolder('cut', '1', 'model.onnx'), 'no model');
    const dev = await startDev(['--models', inFolder(), '--batch-size', '10', '--window', '0', '--urgent']);
    const sqs = anyClient(dev.stack);
    await dev.says(/^ready for good\/1; Ctrl-C stops$/);
    const bodies = ['unloadable', 'cut'].map((name) => JSON.stringify({ model_name: name, instances: [[1]] }));
    await sendAll(sqs, dev.stack.requestQueueUrl, bodies);
    const results = await receiveResults(sqs, dev.stack.resultQueueUrl, bodies.length);
    sqs.destroy();
    const sentences = bodies.map(
      (body) => `model_name: expected one of good, got "${JSON.parse(body).model_name}"; name one`,
    );
    expect([...results.values()].map((result) => (result as { error: string }).error).toSorted()).toEqual(
      sentences.map((sentence) => expect.stringContaining(sentence)).toReversed(),
    );
    await dev.interrupt();
    const told = dev.said().filter((line) => /(cut|unloadable)\/1\/model\.onnx: /.test(line));
    expect(told.map((line) => /^not served: \S+\/(\w+)\/1\//.exec(line)?.[1])).toEqual(['cut', 'unloadable']);
  });

  it('exits with 1 and names the file when a model is broken', async () => {
    await mkdir(inFolder('broken', '1'), { recursive: true });
    await writeFile(inFolder('broken', '1', 'model.onnx'), 'no model');
    const { code, stderr } = await runScript('cli/dev.ts', ['--port', '0', '--models', inFolder()]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(join('broken', '1', 'model.onnx')) });
  });
});
