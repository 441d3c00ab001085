import { execFileSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { pythonOf, sendersOf } from '../../../../cli/inspect/inspectCommand.ts';

const samplesCommand = 'npx batchscore inspect digits --samples requests.jsonl';

describe('how a request is sent', () => {
  it('is a command that any shell takes, whatever the request holds', () => {
    const request = JSON.stringify({ id: `it's "$(id)" \`id\` \\ ü 手 !! %s`, text: "''", empty: '' });
    const { awsCli } = sendersOf(request, samplesCommand, 1000);
    const script = `aws() { for word in "$@"; do printf '%s|' "$word"; done; }; REQUEST_QUEUE='http://host/0 0/queue'; ${awsCli}`;
    expect(execFileSync('sh', ['-c', script], { encoding: 'utf8' })).toBe(
      `sqs|send-message|--endpoint-url|http://host|--queue-url|http://host/0 0/queue|--message-body|${request}|`,
    );
  });

  it('is Python, in which true, false and null have other names', () => {
    expect(pythonOf({ a: [true, false, null, 1.5, -0, '"ü\n'], "it's": {} })).toBe(
      '{"a": [True, False, None, 1.5, -0.0, "\\"ü\\n"], "it\'s": {}}',
    );
    expect(sendersOf('{"id":"a"}', samplesCommand, 10).boto3).toContain('\nrequest = {"id": "a"}\n');
  });

  it('is submit where no message of SQS holds the request', () => {
    const max = `"${'ü'.repeat(1_048_574 / 2)}"`;
    expect(sendersOf(max, samplesCommand, 10).awsCli).toContain('file://request.json');
    const { awsCli } = sendersOf(`${max} `, samplesCommand, 10);
    expect(awsCli).toContain('\nnpx batchscore submit requests.jsonl --stack stack.json');
  });
});
