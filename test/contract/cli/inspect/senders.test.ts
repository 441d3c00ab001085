import { execFileSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { awsCommand } from '../../../../cli/inspect/inspectCommand.ts';

const SAMPLES = 'npx batchscore inspect digits --samples requests.jsonl';

describe('how a request is sent with the AWS CLI', () => {
  it('is a command that any shell takes, whatever the request holds', () => {
    const request = JSON.stringify({ id: `it's "$(id)" \`id\` \\ ü 手 !! %s`, text: "''", empty: '' });
    const script = `aws() { for word in "$@"; do printf '%s|' "$word"; done; }; REQUEST_QUEUE='http://host/0 0/queue'; ${awsCommand(request, SAMPLES)}`;
    expect(execFileSync('sh', ['-c', script], { encoding: 'utf8' })).toBe(
      `sqs|send-message|--endpoint-url|http://host|--queue-url|http://host/0 0/queue|--message-body|${request}|`,
    );
  });

  it('reads a file where the request is long, and is left to submit where no message of SQS holds it', () => {
    const max = `"${'ü'.repeat(1_048_574 / 2)}"`;
    expect(awsCommand(max, SAMPLES)).toContain('file://request.json');
    expect(awsCommand(`${max} `, SAMPLES)).toContain('submit puts it into the payload bucket');
  });
});
