import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { batchscore } from '../../helpers/batchscore.ts';
import { startFront } from '../../helpers/frontServer.ts';

const REQUESTS = 'examples/requests.jsonl';
/** As of an account in which nobody is logged in. */
const NO_CREDENTIALS = {
  HOME: '/nowhere',
  AWS_EC2_METADATA_DISABLED: 'true',
  AWS_CONFIG_FILE: '/nowhere',
  AWS_SHARED_CREDENTIALS_FILE: '/nowhere',
  AWS_ACCESS_KEY_ID: '',
  AWS_SECRET_ACCESS_KEY: '',
  AWS_PROFILE: '',
  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: '',
  AWS_CONTAINER_CREDENTIALS_FULL_URI: '',
  AWS_WEB_IDENTITY_TOKEN_FILE: '',
};

describe('wrong usage', () => {
  const before = { ...process.env };
  let folder: string;
  beforeAll(async () => {
    Object.assign(process.env, NO_CREDENTIALS);
    folder = mkdtempSync(join(tmpdir(), 'batchscore-wrong-usage-'));
    const { endpoint, stop } = await startFront(undefined, []);
    await stop();
    const url = `${endpoint}/000000000000/queue`;
    const jobs = { jobStateMachine: 'arn:aws:states:us-east-1:000000000000:stateMachine:jobs', jobBucket: 'jobs' };
    const files = {
      'customers.csv': 'customer_id,a,b\n1,2,3\n',
      'customers.txt': 'customer_id,a,b\n1,2,3\n',
      'rows.jsonl': '{"imag":[1],"customer_id":1}\n',
      'cut.jsonl': `${readFileSync(REQUESTS, 'utf8').slice(0, 150)}`,
      'nan.jsonl': '{"model_name":"digits","instances":[[NaN]]}\n',
      'pipeline.pkl': '\x80\x04model',
      'weights.pt': 'PK\x03\x04weights',
      'empty.json': '',
      'text.json': 'ready\n',
      'wrong.json': '{"requestQueueUrl":"q"}',
      'deployed.json': JSON.stringify({
        requestQueueUrl: 'https://sqs.us-east-1.amazonaws.com/000000000000/q',
        region: 'us-east-1',
      }),
      'stopped.json': JSON.stringify({
        endpoint,
        region: 'us-east-1',
        requestQueueUrl: url,
        resultQueueUrl: url,
        ...jobs,
      }),
      'sent.jsonl': readFileSync(REQUESTS),
      'sent.jsonl.ids': '{"line":1,"message_id":"one"}\n',
    };
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content, 'latin1');
  });
  afterAll(() => {
    for (const key of Object.keys(NO_CREDENTIALS)) {
      if (before[key] === undefined) delete process.env[key];
      else process.env[key] = before[key];
    }
    rmSync(folder, { recursive: true });
  });

  /** Typed in the folder of the files: `@` is that folder. */
  const typed = (line: string): Promise<{ code: number | null; stdout: string; stderr: string }> =>
    batchscore(line.split(' ').map((word) => word.replace('@', `${folder}/`)));

  it.each([
    ['score digits @customers.csv --inputs image=p0..p63', 1, ['--inputs image=', '"customer_id", "a", "b"']],
    ['score digits @customers.csv --keep a,a', 2, ['--keep', '"a" twice']],
    ['score digits @customers.csv --keep customer', 1, ['keep', 'did you mean "customer_id"?']],
    ['score digits @customers.txt', 1, ['--format csv']],
    ['score digits @rows.jsonl', 1, ['--inputs image=', 'did you mean "imag"?']],
    ['score digits @rows.jsonl --inputs image=imag --keep customer', 1, ['keep', 'did you mean "customer_id"?']],
    ['score digits @customers.csv --inputs image=a --inputs image=b', 2, ['--inputs', 'image twice', 'image=A,B']],
    ['collect @sent.jsonl.ids --out @sent.jsonl.ids --stack @stopped.json', 2, ['--out', 'another file']],
    [`score models/digit ${REQUESTS}`, 1, ['did you mean models/digits?']],
    [`score digit ${REQUESTS}`, 1, ['did you mean digits?']],
    ['inspect models/digits/1/modle.onnx', 1, ['did you mean models/digits/1/model.onnx?']],
    ['inspect models', 1, ['version folder', 'models/digits']],
    ['submit models --ids @ids --stack @stopped.json', 1, ['got: a folder']],
    ['inspect @pipeline.pkl', 1, ['pickle', 'skl2onnx', 'docs/recipes.md']],
    ['inspect @weights.pt', 1, ['zip', 'torch.onnx']],
    [`score digits ${REQUESTS} --out /dev/full`, 1, ['/dev/full', 'no space left', 'name another file']],
    [`score digits ${REQUESTS} --out /proc/x`, 1, ['/proc/x', 'name another file']],
    [`score digits ${REQUESTS} --providers coda`, 1, ['did you mean cuda?', '--providers']],
    ['submit @sent.jsonl --ids @ids --stack @empty.json', 2, ['--stack', 'empty file', 'npm run dev']],
    ['submit @sent.jsonl --ids @ids --stack @text.json', 2, ['--stack', 'no JSON', 'npm run dev']],
    ['submit @sent.jsonl --ids @ids --stack @stopped.json', 1, ['is npm run dev running?']],
    ['job status a --stack @stopped.json', 1, ['is npm run dev running?']],
    ['submit @sent.jsonl --ids @ids --stack @wrong.json', 2, ['--stack', 'requestQueueUrl', 'https://']],
    [
      'submit @sent.jsonl --ids @ids --stack @deployed.json',
      1,
      ['credentials', 'aws configure', 'npm run dev', '--stack'],
    ],
    ['publish models s3://bucket/models --region us-east-1', 1, ['credentials', 'aws configure']],
    ['publish models bucket', 2, ['s3://']],
    ['publish models s3://b/x', 2, ['bucket of 3 to 63']],
    ['publish models s3://bucket/a//b', 2, ['prefix', 'single slashes']],
    [`publish models s3://bucket/${'0'.repeat(64)}`, 2, ['without a digest']],
    ['collect @sent.jsonl --out @out --stack @stopped.json', 1, ['did you mean', 'sent.jsonl.ids?']],
    ['collect @rows.jsonl --out @out --stack @stopped.json', 1, ['batchscore submit', 'FILE.ids']],
  ])('%s', async (line, code, named) => {
    const { stdout, stderr, ...rest } = await typed(line);
    expect({ ...rest, stdout }).toEqual({ code, stdout: '' });
    // One sentence: what was expected, what there is instead, and which way out.
    // A busy machine may warn before it that a check was cut short.
    const told = stderr
      .trimEnd()
      .split('\n')
      .filter((line) => !line.includes('the check of its rows was cut short'));
    expect(told[0]).toMatch(/^batchscore: .*expected .*(got|nothing listens)/);
    expect(told).toHaveLength(code === 2 ? 2 : 1);
    for (const words of named) expect(stderr).toContain(words);
  });

  it('does not wait for the results of a deployment that was stopped', async () => {
    const { code, stderr } = await typed('collect @sent.jsonl.ids --out @out --stack @stopped.json --timeout 86400');
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('is npm run dev running?') });
  });

  it.each([
    ['cut.jsonl', /is cut short/],
    ['nan.jsonl', /NaN and Infinity are written as strings/],
  ])('tells JSON that was cut short from numbers that JSON has not: %s', async (file, reason) => {
    const { code, stdout, stderr } = await typed(`score digits @${file}`);
    expect([code, JSON.parse(stdout).code]).toEqual([3, 'INVALID_JSON']);
    expect(stdout).toMatch(reason);
    expect(stderr).toMatch(/^1 line in /);
  });
});
