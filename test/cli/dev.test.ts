import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type DevStack, type RunningDev, runScript, startDev } from '../helpers/command.ts';

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
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-dev-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('ends with exit code 0 on Ctrl-C', async () => {
    const dev = await startDev();
    expect(await dev.interrupt()).toBe(0);
  });

  it('exits with 1 and names the port when it is taken', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    const { code, stderr } = await runScript('cli/dev.ts', ['--port', String(port)]);
    server.close();
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(`port ${port}`) });
  });

  it('exits with 1 and names the folder when there is no model', async () => {
    const { code, stderr } = await runScript('cli/dev.ts', ['--port', '0', '--models', folder]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(folder) });
  });

  it('exits with 1 and names the file when a model is broken', async () => {
    await mkdir(join(folder, 'broken', '1'), { recursive: true });
    await writeFile(join(folder, 'broken', '1', 'model.onnx'), 'no model');
    const { code, stderr } = await runScript('cli/dev.ts', ['--port', '0', '--models', folder]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(join('broken', '1', 'model.onnx')) });
  });

  it.each([
    [['--batch-size', '0'], /--batch-size: expected a whole number from 1 to 10000, got '0'/],
    [['--batch-size', '11', '--window', '0'], /--window: expected at least 1/],
    [['--results', 'queue,shelf'], /BATCHSCORE_RESULTS/],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await runScript('cli/dev.ts', ['--port', '0', ...args]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(message);
  });
});
