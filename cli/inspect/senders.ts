import { printable } from '../printable.ts';

/** How a request is sent by other tools: text that works as it is printed. */
export interface Senders {
  /** Lines of a shell. */
  readonly awsCli: string;
  /** Lines of Python. */
  readonly boto3: string;
}

/** Where the requests of `--samples` go in what is printed. */
const FILE = 'requests.jsonl';
/** SQS takes no larger message. @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
const MOST_MESSAGE_BYTES = 1_048_576;

/** The endpoint is the beginning of the URL: version 1 of the CLI asks another host, and reads no AWS_ENDPOINT_URL. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell that expands it.
const SEND = 'aws sqs send-message --endpoint-url "${QUEUE_URL%/*/*}" --queue-url "$QUEUE_URL" --message-body';

/**
 * How to send a request with the AWS CLI and with boto3, to the queue that the environment variable QUEUE_URL names.
 *
 * @param request JSON text of one line
 * @param samplesCommand writes it as the first line of a file; used where it is not to stand in the text itself
 * @param mostInline characters of a request that stand in the text itself
 */
export function sendersOf(request: string, samplesCommand: (file: string) => string, mostInline: number): Senders {
  if (Buffer.byteLength(request) > MOST_MESSAGE_BYTES) return tooLarge(samplesCommand(FILE));
  return request.length <= mostInline ? inline(request) : fromFile(samplesCommand(FILE));
}

function inline(request: string): Senders {
  return {
    awsCli: `${SEND} ${quoteForShell(request)}`,
    boto3: [
      'import json, os',
      'import boto3',
      '',
      `request = ${pythonOf(JSON.parse(request))}`,
      ...sending('json.dumps(request)'),
    ].join('\n'),
  };
}

function fromFile(samplesCommand: string): Senders {
  return {
    awsCli: [samplesCommand, `head -n 1 ${FILE} > request.json`, `${SEND} file://request.json`].join('\n'),
    boto3: [
      `# ${FILE} is written by: ${samplesCommand}`,
      'import os',
      'import boto3',
      '',
      `with open("${FILE}", encoding="utf-8") as requests:`,
      '    request = requests.readline()',
      ...sending('request'),
    ].join('\n'),
  };
}

function sending(body: string): string[] {
  return [
    'sqs = boto3.client("sqs")',
    `sent = sqs.send_message(QueueUrl=os.environ["QUEUE_URL"], MessageBody=${body})`,
    'print(sent["MessageId"])',
  ];
}

/** Beyond what a message holds, it goes through the payload bucket. */
function tooLarge(samplesCommand: string): Senders {
  return {
    awsCli: [
      '# More than a message of SQS holds: submit puts it into the payload bucket.',
      samplesCommand,
      `npx batchscore submit ${FILE} --stack stack.json`,
    ].join('\n'),
    boto3: '# More than a message of SQS holds: see docs/message-format.md#large-bodies',
  };
}

/** A text as one word of a POSIX shell. */
export function quoteForShell(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A JSON value as Python writes it. */
export function pythonOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    return `{${Object.entries(value)
      .map(([key, member]) => `${pythonOf(key)}: ${pythonOf(member)}`)
      .join(', ')}}`;
  }
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return Object.is(value, -0) ? '-0.0' : printable(JSON.stringify(value));
}
