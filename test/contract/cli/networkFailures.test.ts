import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { CreateQueueCommand } from '@aws-sdk/client-sqs';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { ALIVE, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { useFolder } from '../../helpers/folders.ts';
import { answersJson, startFront } from '../../helpers/frontServer.ts';
import { afterThisTest } from '../../helpers/openModels.ts';

/** Commands that reach no deployment. */
describe('batchscore submit and collect, without a deployment', () => {
  const inFolder = useFolder();
  let ids: string;
  let out: string;
  beforeEach(() => {
    ids = inFolder('ids');
    out = inFolder('results.jsonl');
    writeFileSync(ids, '{"line":1,"message_id":"a"}\n{"line":2,"message_id":"b"}\n');
  });

  it('say of a store that cannot be read why, and how many results are missing', async () => {
    const queueUrl = 'http://127.0.0.1/queue';
    // Without a server behind it each call is cut.
    const { endpoint, stop } = await startFront(undefined, []);
    afterThisTest(stop);
    const stack = inFolder('stack.json');
    writeFileSync(stack, JSON.stringify({ endpoint, region: 'us-east-1', resultQueueUrl: queueUrl }));
    const { code, stdout, stderr } = await batchscore([
      'collect',
      ids,
      '--out',
      out,
      '--stack',
      stack,
      '--timeout',
      '2',
    ]);
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: `0 of 2 results are in ${out}, 0 with an error, 2 missing\n`,
    });
    expect(stderr).toMatch(/2 are missing; the result store could not be read: ./);
  });

  it.each([
    [
      'a line of it',
      ['bad', '--out', 'out'],
      1,
      'bad: expected an ids file, got another at line 1; give the file that batchscore submit wrote, FILE.ids',
    ],
    [
      'the stack file',
      ['ids', '--out', 'out', '--stack', 'none'],
      2,
      '--stack: none: expected a file, got: no such file or directory; check the path',
    ],
    [
      'the folder of results',
      ['ids', '--out', '/no/x', '--result-table', 'any'],
      1,
      '/no/x: expected a folder for it, got none at /no; make that folder',
    ],
    [
      'a name in the stack file',
      ['ids', '--out', 'out', '--stack', 'other'],
      2,
      '--stack: expected other to name resultTable or resultQueueUrl, it does not; name another, or give --result-table NAME or --result-queue URL',
    ],
  ])('collect says that %s is missing or bad', async (_, args, code, sentence) => {
    writeFileSync(inFolder('bad'), 'nonsense\n');
    writeFileSync(inFolder('other'), '{}\n');
    const paths = args.map((one) => (/^[a-z.]+$/.test(one) && one !== 'any' ? inFolder(one) : one));
    const finished = await batchscore(['collect', ...paths]);
    const said = finished.stderr.split('\n')[0]?.replaceAll(`${inFolder()}/`, '').replaceAll(inFolder(), '.');
    expect({ code: finished.code, said }).toEqual({ code, said: `batchscore: ${sentence}` });
  });

  it.each([
    ['submit', 'expected --stack FILE or --request-queue URL, got none'],
    ['collect', 'expected --stack FILE or --result-table NAME or --result-queue URL, got none'],
  ])('%s wants to know the deployment before it makes a file', async (command, message) => {
    const { code, stderr } = await batchscore([command, ids, ...(command === 'collect' ? ['--out', out] : [])]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
    expect([out, `${ids}.ids`].filter((file) => existsSync(file))).toEqual([]);
  });

  it('submit names the other queue that was given as the request queue', async () => {
    const url = 'http://127.0.0.1:1/000000000000/batchscore-results';
    writeFileSync(inFolder('stack'), JSON.stringify({ requestQueueUrl: `${url}-not`, resultQueueUrl: url }));
    const { code, stderr } = await batchscore(['submit', ids, '--stack', inFolder('stack'), '--request-queue', url]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining(`--request-queue: expected the request queue, got the result queue ${url}`),
    });
  });

  it('collect reads a table without knowing the request queue', async () => {
    const lines = ['a', 'b'].map((id) => `{"message_id":"${id}","code":"INVALID_JSON","error":"no JSON"}`);
    const items = ['a', 'b'].map((id, index) => ({ messageId: { S: id }, body: { S: lines[index] } }));
    const front = await startFront(undefined, [answersJson(200, { Responses: { results: items } })]);
    Object.assign(process.env, {
      AWS_ENDPOINT_URL_DYNAMODB: front.endpoint,
      AWS_ACCESS_KEY_ID: 'any',
      AWS_SECRET_ACCESS_KEY: 'any',
    });
    const table = ['--result-table', 'results', '--region', 'us-east-1', '--timeout', '10'];
    const finished = await batchscore(['collect', ids, '--out', out, ...table]);
    await front.stop();
    expect(finished).toEqual({ code: 3, stderr: '', stdout: `2 of 2 results are in ${out}, 2 with an error\n` });
    expect(readFileSync(out, 'utf8')).toBe(`${lines.join('\n')}\n`);
  });
});

describe('batchscore collect, from a result queue', () => {
  const deployments = useDeployments();
  const inFolder = useFolder();

  it('gives back the result that it cannot write: run again, it gets that too', async () => {
    const { writer, resultQueueUrl } = await deployments.create('queue');
    await writer.write([resultOf('a')], ALIVE);
    writeFileSync(inFolder('ids'), '{"line":1,"message_id":"a"}\n');
    const deployment = { endpoint: new URL(resultQueueUrl).origin, region: 'us-east-1', resultQueueUrl };
    writeFileSync(inFolder('stack.json'), JSON.stringify(deployment));
    const collectTo = (out: string) =>
      batchscore(['collect', inFolder('ids'), '--out', out, '--stack', inFolder('stack.json'), '--timeout', '10']);

    expect(await collectTo('/dev/full')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('/dev/full: expected a file that can be written, got: no space left'),
    });

    expect(await collectTo(inFolder('out'))).toMatchObject({ code: 0 });
    expect(readFileSync(inFolder('out'), 'utf8')).toMatch(/^\{"message_id":"a",/);
  });

  it('writes what would lock the message groups of a FIFO queue to its file too', async () => {
    const { writer, resultQueueUrl } = await deployments.create('queue', 'fifo');
    const results = ['b', 'c', 'a'].map((id) => ({ ...resultOf(id), messageGroupId: 'g' }));
    await writer.write(results, ALIVE);
    writeFileSync(inFolder('ids'), '{"line":1,"message_id":"a"}\n');
    const deployment = { endpoint: new URL(resultQueueUrl).origin, region: 'us-east-1', resultQueueUrl };
    writeFileSync(inFolder('stack.json'), JSON.stringify(deployment));
    const args = ['--out', inFolder('out'), '--stack', inFolder('stack.json'), '--timeout', '10'];
    expect(await batchscore(['collect', inFolder('ids'), ...args])).toEqual({
      code: 0,
      stdout: `1 of 1 result is in ${inFolder('out')}, 0 with an error\n`,
      stderr: `${inFolder('out')} also holds 2 results of other message IDs\n`,
    });
    expect(readFileSync(inFolder('out'), 'utf8').match(/"message_id":"\w"/g)).toHaveLength(3);
    await expect(deployments.sqs.drain(resultQueueUrl)).resolves.toEqual([]);
  });
});

describe('batchscore submit, given a file that holds no requests', () => {
  const sqs = useSqsServer();
  const inFolder = useFolder();

  /** Each of its lines is one that a queue would take. */
  async function submitFile(name: string, content: string | Buffer) {
    const requestQueueUrl = sqs.queue();
    const stack = { endpoint: new URL(requestQueueUrl).origin, region: 'us-east-1', requestQueueUrl };
    writeFileSync(inFolder('stack.json'), JSON.stringify(stack));
    writeFileSync(inFolder(name), content);
    const { code, stderr } = await batchscore(['submit', inFolder(name), '--stack', inFolder('stack.json')]);
    const sent = (await sqs.drain(requestQueueUrl)).map(({ Body }) => Body);
    return { code, stderr, sent, wroteIds: existsSync(inFolder(`${name}.ids`)) };
  }

  it.each([
    [
      'batchscore-results',
      /, which is a result queue by its name and has no dead-letter queue; give the other URL, or /,
    ],
    ['Stack-ScoringDeadLetters1A2B', /, which is a dead-letter queue by its name and has none itself; give the other/],
    ['orders-requests', undefined],
    ['search', undefined],
  ])('does not send requests to another queue of a deployment without its stack: %s', async (QueueName, refused) => {
    await sqs.client().send(new CreateQueueCommand({ QueueName }));
    const requestQueueUrl = sqs.queue().replace(/[^/]+$/, QueueName);
    writeFileSync(inFolder('stack.json'), JSON.stringify({ endpoint: new URL(requestQueueUrl).origin }));
    writeFileSync(inFolder('requests'), '{"instances":[[1]]}\n');
    const args = [
      'submit',
      inFolder('requests'),
      '--stack',
      inFolder('stack.json'),
      '--request-queue',
      requestQueueUrl,
    ];
    const { code, stderr } = await batchscore(args);
    const sent = await sqs.drain(requestQueueUrl);
    expect({ code, sent: sent.length }).toEqual(refused === undefined ? { code: 0, sent: 1 } : { code: 2, sent: 0 });
    if (refused !== undefined) expect(stderr).toMatch(refused);
  });

  const SCORED =
    /score a data file here with batchscore score MODEL FILE, or one in S3 with batchscore job submit s3:\/\/BUCKET\/KEY/;

  it.each([
    ['CSV by another name, with blank lines first', 'a.txt', '\n\nf0;f1\n0.1;2\n', /: line 3: .*got CSV; /, SCORED],
    ['plain rows', 'a.jsonl', '{"f0":0.1,"id":"x"}\n', /: line 1: .*got an object with the keys "f0", "id"; /, SCORED],
    ['rows as arrays', 'a.jsonl', '[0.1,2]\n[3,4]\n', /got an array of 2 elements, one of them 0.1; /, SCORED],
    ['all rows in one array', 'a.json', '[{"x":1},{"x":2}]', /got an array .* one of them an object without /, SCORED],
    [
      'a large array',
      'a.json',
      `[${'{"x":1},'.repeat(250_000)}{}]`,
      /got JSON of more arrays and objects than /,
      SCORED,
    ],
    ['JSON over several lines', 'a.json', '{\n  "inputs": []\n}\n', /got a part of JSON; /, /jq -c/],
    ['prose', 'a.md', 'Read me first\n', /got text that is no JSON; /, /check the path/],
    ['NumPy', 'a.npy', Buffer.from('\x93NUMPY\x01\x00', 'latin1'), /got an array of NumPy; /, /as Parquet or CSV/],
    ['blank lines', 'a.jsonl', '\n \n', /got none; /, /nothing was sent/],
  ])('says what it is and which command takes it, and sends nothing: %s', async (_, name, content, got, cure) => {
    const { stderr, ...rest } = await submitFile(name, content);
    expect(rest).toEqual({ code: 1, sent: [], wroteIds: false });
    expect(stderr).toMatch(got);
    expect(stderr).toMatch(cure);
  });

  it.each([
    ['a request', '{"inputs":[]}'],
    ['the short form', '{"instances":[[1]]}'],
    ["a model's own form, which names its model", '{"text":"hello","model_name":"tickets"}'],
    ['a request without inputs, which is answered with an error', '{"id":"x"}'],
    ['a packed message', '[{"inputs":[]},{"inputs":[]}]'],
  ])('sends what is one: %s', async (_, line) => {
    expect(await submitFile('a.jsonl', `${line}\nnot JSON\n`)).toMatchObject({
      code: 0,
      sent: expect.arrayContaining([line, 'not JSON']),
    });
  });
});
