/**
 * Deploys the stacks of `app.ts` with the CDK's own command line to ministack, an AWS in one Python process with IAM enforced, and uses
 * it through boto3 and the commands of this package: `npm run test:deploy`. Without Python 3 it says so and does nothing;
 * with `--required` it fails.
 *
 * What it cannot show: a batching window, batches of more than ten messages, several environments of a FIFO queue, the
 * image's build and push (a function runs from the folder that was staged for it), alarms of metric math, encryption
 * itself, `start-message-move-task`, versions in steps, VPCs, GPUs and ECS, for which no emulator was found that runs tasks
 * without Docker.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { jsonLines, REPOSITORY } from '../../helpers/command.ts';
import { lookupModel, unloadableModel } from '../../helpers/onnxModels.ts';
import { imageMessages } from '../image/messages.ts';
import { type Emulator, startEmulator } from './emulator.ts';

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'batchscore-deploy-'));
const SAMPLES = jsonLines(readFileSync(join(REPOSITORY, 'models/digits/held-out.jsonl'), 'utf8')).slice(2, 20);
/** The models of the stack `Bucket`. */
const MODELS = join(folder, 'models');
let aws: Emulator;

if (spawnSync('python3', ['--version']).status === 0) test();
else {
  console.error('test:deploy is left out: it needs Python 3 for the emulator, and there is no python3 on the path');
  process.exitCode = process.argv.includes('--required') ? 1 : 0;
}

function test(): void {
  before(async () => {
    aws = await startEmulator(folder);
    await cdk('bootstrap', 'aws://000000000000/us-east-1');
  });
  after(async () => {
    await aws.stop();
    rmSync(folder, { recursive: true });
  });
  // Side by side: most of the time goes into starting processes, and waiting for messages to come back.
  describe('deployments', { concurrency: true, timeout: 300_000 }, () => {
    const inTurn = { concurrency: 1 };
    describe('the defaults, results on a queue', inTurn, asItIs);
    describe('results in a table, a key of KMS, and jobs', inTurn, jobsAndKms);
    describe('FIFO over two shards, results in all stores, and tracing', inTurn, fifoAndAllStores);
    describe('results in a bucket, and a model that cannot be loaded', inTurn, deadLetters);
  });
}

function asItIs(): void {
  let stack: Record<string, string>;

  it('answers 500 requests of boto3, in every form', async () => {
    stack = await deploy('Batchscore');
    // The app deploys the models of this repository; `words` is of the image tests alone.
    const messages = imageMessages().filter(({ body }) => !body.includes('"words"'));
    const expected = Array.from({ length: 500 }, (_, index) => messages[index % messages.length]);
    const ids = await send(
      stack.requestQueueUrl,
      expected.map((message) => ({ MessageBody: message?.body })),
    );
    const results = await receiveResults(stack.resultQueueUrl, ids.length);
    for (const [index, id] of ids.entries()) {
      assert.partialDeepStrictEqual(results.get(id), [expected[index]?.expected].flat());
    }
  });

  it('answers packed requests of our own commands, and one of 1.5 MB', async () => {
    const large = Array.from({ length: 8000 }, (_, index) => sampleOf(index).pixels);
    const requests = [...SAMPLES.map(({ pixels }) => ({ instances: [pixels] })), { instances: large }];
    const results = await score('Batchscore', requests, '--pack', '10');
    const labels = results.map((result) => result.predictions.map(({ label }: Sample) => label));
    assert.deepEqual(labels, [...SAMPLES.map(({ label }) => [label]), large.map((_, index) => sampleOf(index).label)]);
  });

  it('is what it was deployed as, and leaves its results when it is destroyed', async () => {
    assert.match(await cdk('diff', '--app', outputOf('Batchscore')), /Number of stacks with differences: 0/);
    await cdk('destroy', '--app', outputOf('Batchscore'), '--force');
    await assert.rejects(aws.call('cloudformation', 'describe_stacks', { StackName: 'Batchscore' }), /does not exist/);
    await assert.rejects(attributesOf(stack.requestQueueUrl), /NonExistentQueue|does not exist/);
    await attributesOf(stack.resultQueueUrl);
    await aws.call('s3', 'head_bucket', { Bucket: stack.payloadBucket });
  });
}

function jobsAndKms(): void {
  let stack: Record<string, string>;
  const lines = SAMPLES.map(({ pixels }) => JSON.stringify({ instances: [pixels] })).join('\n');
  const labels = SAMPLES.map(({ label }) => label);

  it('writes results to the table', async () => {
    stack = await deploy('Jobs');
    const { KmsMasterKeyId } = await attributesOf(stack.requestQueueUrl);
    assert.match(KmsMasterKeyId ?? '', /^arn:aws:kms:/);
    const results = await score(
      'Jobs',
      SAMPLES.map(({ pixels }) => ({ instances: [pixels] })),
    );
    assert.deepEqual(
      results.map(({ predictions }) => predictions[0].label),
      labels,
    );
    const { Item } = await aws.call('dynamodb', 'get_item', {
      TableName: stack.resultTable,
      Key: { messageId: { S: results[0].message_id } },
    });
    assert.equal(JSON.parse(Item.body.S).predictions[0].label, labels[0]);
  });

  it('scores a file that is put, and one that is submitted', async () => {
    const Bucket = stack.jobBucket;
    await aws.call('s3', 'put_object', { Bucket, Key: 'jobs/in/rows.jsonl', Body: lines });
    const rows = SAMPLES.map(({ pixels }, id) => [id, ...pixels].join(','));
    const header = ['id', ...Array.from({ length: 64 }, (_, index) => `p${index}`)].join(',');
    await aws.call('s3', 'put_object', { Bucket, Key: 'jobs/in/_mine/rows.csv', Body: [header, ...rows].join('\n') });

    const columns = ['--model', 'digits', '--inputs', 'image=p0..p63', '--keep', 'id'];
    const job = await batchscore(
      'job',
      'submit',
      `s3://${Bucket}/jobs/in/_mine/rows.csv`,
      ...columns,
      '--wait',
      '--json',
      ...at('Jobs'),
    );
    const scored = join(folder, 'scored.jsonl');
    await batchscore('job', 'fetch', JSON.parse(job).job, '--out', scored, ...at('Jobs'));
    const results = jsonLines(readFileSync(scored, 'utf8'));
    assert.deepEqual(
      results.map(({ kept }) => Number(kept.id)),
      [...SAMPLES.keys()],
    );

    // The other job is that of the upload.
    const isManifest = (key: string): boolean => key.endsWith('/manifest.json');
    await until(async () => (await keysOf(Bucket)).filter(isManifest).length === 2);
    const reports = (await keysOf(Bucket))
      .filter(isManifest)
      .map((Key) => aws.call('s3', 'get_object', { Bucket, Key }));
    for (const { Body } of await Promise.all(reports)) {
      assert.partialDeepStrictEqual(JSON.parse(Body), { rows: SAMPLES.length, errors: {} });
    }
  });
}

function fifoAndAllStores(): void {
  it('keeps the order of each group, and writes every result to every store', async () => {
    const stack = await deploy('Fifo');
    const groups = ['a', 'b', 'c', 'd', 'e'];
    const requests = Array.from({ length: 60 }, (_, index) => ({
      id: `${groups[index % groups.length]}`,
      instances: [sampleOf(index).pixels],
    }));
    const results = await score('Fifo', requests, '--group-by', 'id');
    const ids: string[] = results.map(({ message_id }) => message_id);
    const onQueue = await receiveResults(stack.resultQueueUrl, ids.length);
    for (const group of groups) {
      const inOrder = [...onQueue].filter(([, [result]]) => result?.id === group).map(([id]) => id);
      assert.deepEqual(
        inOrder,
        ids.filter((_, index) => requests[index]?.id === group),
      );
    }
    const stored = await objectsOf(stack.resultBucket);
    assert.deepEqual(stored.map(({ message_id }) => message_id).toSorted(), ids.toSorted());
    const functions = await aws.call('lambda', 'list_functions');
    const traced = functions.Functions.find(({ FunctionName }: Named) => FunctionName.startsWith('Fifo-'));
    assert.equal(traced.TracingConfig.Mode, 'Active');
  });
}

function deadLetters(): void {
  let stack: Record<string, string>;

  it('makes dead letters of what is received five times', async () => {
    write({ 'lookup/1/model.onnx': unloadableModel() });
    stack = await deploy('Bucket');
    // A message comes back after six times the function's time limit; here after two seconds.
    const QueueUrl = stack.requestQueueUrl;
    await aws.call('sqs', 'set_queue_attributes', { QueueUrl, Attributes: { VisibilityTimeout: '2' } });
    await send(QueueUrl, [{ MessageBody: requestFor(1) }]);
    await until(async () => (await attributesOf(stack.deadLetterQueueUrl)).ApproximateNumberOfMessages === '1');
  });

  it('answers them once the update is there, and what crashes its process with an error', async () => {
    write({
      'lookup/1/model.onnx': lookupModel(),
      'culprit/1/model.onnx': lookupModel(),
      'culprit/config.json': JSON.stringify({ transform: 'transform.mjs' }),
      'culprit/transform.mjs': 'export function decode() { process.abort(); }',
    });
    const update = outputOf('Update');
    const changed = await cdk('diff', '--app', appOf('Bucket', '50'), '--output', update);
    assert.match(changed, / BatchSize .*\n.*\[-\] 100\n.*\[\+\] 50/);
    await cdk('deploy', '--app', update, '--require-approval', 'never');

    const { Messages } = await aws.call('sqs', 'receive_message', { QueueUrl: stack.deadLetterQueueUrl });
    const [{ Body, ReceiptHandle }] = Messages;
    const ids = await send(stack.requestQueueUrl, [{ MessageBody: Body }, { MessageBody: '{"model_name":"culprit"}' }]);
    await aws.call('sqs', 'delete_message', { QueueUrl: stack.deadLetterQueueUrl, ReceiptHandle });
    let results: Result[] = [];
    await until(async () => {
      results = await objectsOf(stack.resultBucket);
      return results.length >= 2;
    });
    const [redriven, crashed] = ids.map((id) => results.find(({ message_id }) => message_id === id));
    assert.deepEqual(redriven?.outputs?.[0]?.data, [20]);
    assert.equal(crashed?.code, 'MODEL_CRASHED');
  });

  const requestFor = (index: number): string =>
    JSON.stringify({ inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }] });
  const write = (files: Readonly<Record<string, string | Uint8Array>>): void => {
    for (const [file, content] of Object.entries(files)) {
      mkdirSync(dirname(join(MODELS, file)), { recursive: true });
      writeFileSync(join(MODELS, file), content);
    }
  };
}

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

interface Named {
  readonly FunctionName: string;
}

// biome-ignore lint/suspicious/noExplicitAny: of many forms, which the tests compare.
type Result = any;

function sampleOf(index: number): Sample {
  return SAMPLES[index % SAMPLES.length];
}

/** The CDK's command line, with a program in the place of Docker that does nothing and succeeds. */
async function cdk(...args: readonly string[]): Promise<string> {
  // The library's validator takes seconds to start, and `npm run synth` has it on.
  const env = { ...aws.env, MODELS, CDK_DOCKER: 'true', CDK_VALIDATION: 'false', CI: 'true' };
  const { stdout, stderr } = await run('cdk', ['--no-notices', '--no-color', ...args], { cwd: REPOSITORY, env });
  return stdout + stderr;
}

function outputOf(stackName: string): string {
  return join(folder, stackName);
}

/** The app that has the stack, as the CDK's command line takes it. */
function appOf(...args: readonly string[]): string {
  return ['node test/system/deploy/app.ts', ...args].join(' ');
}

/** @returns its outputs */
async function deploy(stackName: string): Promise<Record<string, string>> {
  const outputs = `${outputOf(stackName)}.json`;
  const files = ['--output', outputOf(stackName), '--outputs-file', outputs];
  await cdk('deploy', '--app', appOf(stackName), '--require-approval', 'never', ...files).catch((error: Error) => {
    throw new Error(`${error.message}\n${aws.printed()}`);
  });
  return JSON.parse(readFileSync(outputs, 'utf8'))[stackName];
}

function at(stackName: string): string[] {
  return ['--stack', `${outputOf(stackName)}.json`];
}

/** Our own command line. @throws Error with what it printed, when it fails */
async function batchscore(...args: readonly string[]): Promise<string> {
  const script = join(REPOSITORY, 'cli/batchscore.ts');
  const { stdout } = await run(process.execPath, [script, ...args], { env: aws.env });
  return stdout;
}

/** Submits requests and collects their results. @returns these in the order of the requests */
async function score(stackName: string, requests: readonly object[], ...options: readonly string[]): Promise<Result[]> {
  const [file, ids, out] = ['requests', 'ids', 'results'].map((name) => join(folder, `${stackName}-${name}`));
  writeFileSync(file as string, requests.map((request) => `${JSON.stringify(request)}\n`).join(''));
  await batchscore('submit', file as string, '--ids', ids as string, ...options, ...at(stackName));
  await batchscore('collect', ids as string, '--out', out as string, ...at(stackName));
  const results = new Map(jsonLines(readFileSync(out as string, 'utf8')).map((result) => [result.message_id, result]));
  return jsonLines(readFileSync(ids as string, 'utf8')).map(({ message_id }) => results.get(message_id));
}

/** @returns the message IDs, in order */
async function send(QueueUrl: string | undefined, entries: readonly object[]): Promise<string[]> {
  const ids: string[] = [];
  for (let from = 0; from < entries.length; from += 10) {
    const Entries = entries.slice(from, from + 10).map((entry, index) => ({ Id: String(index), ...entry }));
    const { Successful } = await aws.call('sqs', 'send_message_batch', { QueueUrl, Entries });
    for (const { Id, MessageId } of Successful) ids[from + Number(Id)] = MessageId;
  }
  return ids;
}

/** Takes results from their queue until there are those of so many messages. @returns them by message ID, as they came */
async function receiveResults(QueueUrl: string | undefined, count: number): Promise<Map<string, Result[]>> {
  const found = new Map<string, Result[]>();
  while (found.size < count) {
    const wait = { MaxNumberOfMessages: 10, WaitTimeSeconds: 5 };
    const { Messages = [] } = await aws.call('sqs', 'receive_message', { QueueUrl, ...wait });
    for (const { Body, ReceiptHandle } of Messages) {
      for (const result of [JSON.parse(Body)].flat(2)) {
        found.set(result.message_id, [...(found.get(result.message_id) ?? []), result]);
      }
      await aws.call('sqs', 'delete_message', { QueueUrl, ReceiptHandle });
    }
  }
  return found;
}

async function attributesOf(QueueUrl: string | undefined): Promise<Record<string, string>> {
  return (await aws.call('sqs', 'get_queue_attributes', { QueueUrl, AttributeNames: ['All'] })).Attributes;
}

async function keysOf(Bucket: string | undefined): Promise<string[]> {
  const { Contents = [] } = await aws.call('s3', 'list_objects_v2', { Bucket });
  return Contents.map(({ Key }: { readonly Key: string }) => Key);
}

/** The results in a bucket. */
async function objectsOf(Bucket: string | undefined): Promise<Result[]> {
  const keys = (await keysOf(Bucket)).filter((key) => key.endsWith('.ndjson'));
  const objects = await Promise.all(keys.map((Key) => aws.call('s3', 'get_object', { Bucket, Key })));
  return objects.flatMap(({ Body }) => jsonLines(Body));
}

/** Looks again and again, until it is so. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 200));
}
