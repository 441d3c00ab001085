import { beforeAll, describe, expect, it } from '@jest/globals';
import { unpackResults } from '../../../client/readResult.ts';
import { createPayloads } from '../../../lambda/aws/payloads.ts';
import { createQueueWriter } from '../../../lambda/aws/resultQueue.ts';
import { ERROR_CODES } from '../../../lambda/core/failure.ts';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import { useS3Server, useSqsServer } from '../../helpers/awsServers.ts';
import { docExamples, docPage } from '../../helpers/command.ts';
import {
  echoModel,
  enoughTime,
  lineModel,
  memoryWriter,
  repositoryOf,
  scoringDependencies,
  standardRecord,
  sumModel,
} from '../../helpers/scoring.ts';

const PAGE = docPage('message-format.md');

/** The codes named in the first column of the tables whose section says `kind`. */
function documentedCodes(page: string, kind: 'Permanent' | 'Transient'): string[] {
  const section = page.slice(page.indexOf(`\n${kind}:`));
  const table = section.slice(section.indexOf('\n| `'), section.indexOf('\n\n', section.indexOf('\n| `')));
  return [...table.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code = '']) => code);
}

/** The text of the page's fence of this kind. */
function fence(kind: string): string {
  return new RegExp(`^\`\`\`json ${kind}\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(PAGE)?.[1] ?? '';
}

const server = useSqsServer();
const s3 = useS3Server();

beforeAll(() => s3.bucket('payload-bucket'));

describe('docs/message-format.md', () => {
  const examples = docExamples(PAGE);
  const models = repositoryOf(sumModel(), lineModel(), echoModel('INT64', [], { name: 'exact' }));

  it('has examples', () => {
    expect(examples.length).toBeGreaterThanOrEqual(9);
  });

  it.each(examples)('answers as written: $title', async ({ request, payload, result }) => {
    const payloads = createPayloads({ s3: s3.client(), bucket: 'payload-bucket', maxBytes: 1000 });
    if (payload !== undefined) await s3.put('payload-bucket', 'requests/1', payload);
    const writer = memoryWriter();
    const deps = scoringDependencies({ models, writer, payloads });
    await scoreRecords([standardRecord(request, { messageId: 'm-1' })], deps, enoughTime());
    expect(writer.documentsOf('m-1')).toEqual([result]);
  });

  it('has packed results as the result queue gets them, and as the client reads them', async () => {
    const [requests, results] = ['requests', 'packed'].map((kind) => JSON.parse(fence(kind))) as [unknown[], unknown[]];
    const queueUrl = server.queue();
    const packing = { results: Number.POSITIVE_INFINITY, bytes: 65_536 };
    const writer = createQueueWriter({ sqs: server.client(), queueUrl, packing });
    const records = requests.map((body, index) => standardRecord(body, { messageId: `m-${index + 1}` }));
    // All at once, as one micro-batch has them.
    const gathered = memoryWriter();
    await scoreRecords(records, scoringDependencies({ models, writer: gathered }), enoughTime());
    const inOrder = gathered.written.toSorted((a, b) => a.messageId.localeCompare(b.messageId));
    await writer.write(inOrder, new AbortController().signal);

    const [{ Body = '', MessageAttributes } = {}, ...more] = await server.drain(queueUrl);
    expect([JSON.parse(Body), MessageAttributes, more]).toEqual([
      results,
      { results: { DataType: 'Number', StringValue: '3' } },
      [],
    ]);
    expect(unpackResults(Body, '3')).toEqual(
      results.map((document, index) => ({ messageId: `m-${index + 1}`, document })),
    );
  });

  it.each(['Permanent', 'Transient'] as const)('lists every %s code, and no other', (kind) => {
    const codes = Object.entries(ERROR_CODES).filter(([, is]) => is === kind.toLowerCase());
    expect(documentedCodes(PAGE, kind).toSorted()).toEqual(codes.map(([code]) => code).toSorted());
  });
});
