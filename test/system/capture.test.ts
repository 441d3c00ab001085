import { gunzipSync } from 'node:zlib';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { describe, expect, it } from '@jest/globals';
import { createCapture, isChosen } from '../../lambda/aws/capture.ts';
import { pointerBody } from '../../lambda/core/record.ts';
import { useS3Server } from '../helpers/awsServers.ts';
import { neverAnswers, refusesXml, type Step } from '../helpers/frontServer.ts';
import { lookupRequest } from '../helpers/handler.ts';
import { HOSTS, type Host, type HostName, useHosts } from '../helpers/hosts.ts';
import { lookupModel } from '../helpers/onnxModels.ts';

const MODELS = {
  'lookup/1/model.onnx': lookupModel(),
  'other/1/model.onnx': lookupModel(),
  'other/transform.mjs': `export const decode = ({ at }) => [{ name: 'index', datatype: 'INT64', shape: [1], data: [at] }];
    export const encode = ({ value }) => ({ value: value.data[0] });`,
  'other/config.json': { transform: 'transform.mjs' },
};
const CREDENTIALS = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };

const hosts = useHosts();
const s3 = useS3Server();

interface Kept {
  readonly parameters: { readonly captured: { readonly at: string; readonly answer: { readonly message_id: string } } };
}

/** Starts a host that keeps samples, with something in front of S3. */
async function startCapturing(name: HostName, percent: number, step?: Step) {
  const [bucket, payloads] = [await s3.bucket(), await s3.bucket()];
  const front = step && (await s3.front(...Array.from({ length: 500 }, () => step)));
  const host = await hosts.start(name, {
    models: MODELS,
    environment: {
      ...CREDENTIALS,
      AWS_ENDPOINT_URL_S3: front?.endpoint ?? s3.endpoint(),
      BATCHSCORE_CAPTURE_PERCENT: String(percent),
      BATCHSCORE_CAPTURE_BUCKET: bucket,
      BATCHSCORE_CAPTURE_PREFIX: 'team/',
      BATCHSCORE_PAYLOAD_BUCKET: payloads,
    },
  });
  /** @returns the message IDs of bodies, once they are answered */
  const score = async (bodies: readonly unknown[]): Promise<string[]> => {
    const ids = host.send(bodies);
    await host.become('deleted', ids);
    return ids;
  };
  const look = async (): Promise<Record<string, Kept[]>> => {
    const lines: Record<string, Kept[]> = {};
    for (const Key of await s3.keys(bucket)) {
      expect(Key).toMatch(/^team\/captured\/\w+\/\d{4}-\d\d-\d\d\/\d{6}-[0-9a-f-]{36}\.jsonl\.gz$/);
      const { Body } = await s3.client().send(new GetObjectCommand({ Bucket: bucket, Key }));
      const text = gunzipSync((await Body?.transformToByteArray()) ?? new Uint8Array()).toString();
      const folder = Key.split('/')[2] ?? '';
      lines[folder] = [
        ...(lines[folder] ?? []),
        ...text
          .trimEnd()
          .split('\n')
          .map((line): Kept => JSON.parse(line)),
      ];
    }
    return lines;
  };
  /** The lines of the objects, by their folder, once there are so many: a function may end before S3 has taken them. */
  const kept = async (count: number): Promise<Record<string, Kept[]>> => {
    let lines = await look();
    while (Object.values(lines).flat().length < count) lines = await look();
    return lines;
  };
  return { host, score, kept, payloads };
}

/** How many of a metric were counted. */
function sumOf(metric: string, host: Host): number {
  const lines = host.printed().split('\n');
  const counts = lines.filter((line) => line.includes(`"${metric}":`)).flatMap((line) => [JSON.parse(line)[metric]]);
  return counts.flat().reduce((sum: number, count: number) => sum + count, 0);
}

const withoutAnswer = ({ parameters: { captured: _, ...parameters }, ...request }: Kept) =>
  Object.keys(parameters).length === 0 ? request : { ...request, parameters };

it('holds only what S3 has not taken yet, however much that was before', async () => {
  const counts = { kept: 0, lost: 0 };
  const capture = createCapture({
    s3: s3.client(),
    bucket: await s3.bucket(),
    percent: 100,
    observer: {
      captured({ kept, lost }) {
        counts.kept += kept;
        counts.lost += lost;
      },
    },
    warn() {},
  });
  const body = JSON.stringify({ inputs: [], note: 'x'.repeat(3 * 1024 * 1024) });
  for (let index = 0; index < 6; index++) {
    capture.take({ messageId: `${index}`, body, answer: `{"message_id":"${index}","model_name":"lookup"}` });
    await capture.flush();
  }
  expect(counts).toEqual({ kept: 6, lost: 0 });
});

describe.each(HOSTS)('%s', (name) => {
  it('keeps requests as they came, with their answers, by model; what got an error, or lies in S3, is left out', async () => {
    const { host, score, kept, payloads } = await startCapturing(name, 100);
    await s3.put(payloads, 'requests/two', JSON.stringify([lookupRequest(0), lookupRequest(1)]));
    const pointer = pointerBody({ bucket: payloads, key: 'requests/two' });
    const asked = { ...lookupRequest(0), parameters: { binary_data_output: true, note: 'mine' } };
    const spread = JSON.stringify(lookupRequest(2), null, 2);
    const packed = [lookupRequest(1), 'no request', { model_name: 'other', at: 2 }, { model_name: 'other', at: 9 }];
    const exact = '{"p\\u0061rameters":{"note":-0.0},"model_name":"other","at":0,"note":-0.0}';
    // Parsed and written again it would take more stack than there is.
    const deep = `[{"model_name":"other","at":1,"deep":${'['.repeat(10_000)}${']'.repeat(10_000)}}]`;
    const ids = await score([pointer, asked, spread, '{"no":', packed, { model_name: 'other', at: 0 }, exact, deep]);
    await host.stop();
    const lines = await kept(6);
    const requests = Object.entries(lines).map(([model, own]) => [model, new Set(own.map(withoutAnswer))]);
    expect(Object.fromEntries(requests)).toEqual({
      lookup: new Set([asked, lookupRequest(2), lookupRequest(1)]),
      other: new Set([
        { model_name: 'other', at: 0 },
        { model_name: 'other', at: 2 },
        { model_name: 'other', at: 0, note: -0, parameters: { note: -0 } },
      ]),
    });
    const written = host.written().map((answer) => JSON.stringify(answer));
    for (const { parameters } of Object.values(lines).flat()) {
      expect(written).toContain(JSON.stringify(parameters.captured.answer));
      expect(ids).toContain(parameters.captured.answer.message_id);
      expect(Date.parse(parameters.captured.at)).not.toBeNaN();
    }
    // What comes after the end of an invocation is counted with the next.
    if (name === 'the worker') expect([sumOf('CaptureLost', host), sumOf('Captured', host)]).toEqual([1, 6]);
  });

  it('keeps a share of the messages, those whose IDs every host chooses', async () => {
    const { host, score, kept } = await startCapturing(name, 30);
    const ids = await score(Array.from({ length: 200 }, (_, index) => lookupRequest(index % 3)));
    await host.stop();
    const expected = ids.filter((id) => isChosen(id, 30));
    const chosen =
      (await kept(expected.length)).lookup?.map(({ parameters }) => parameters.captured.answer.message_id) ?? [];
    expect(chosen.toSorted()).toEqual(expected.toSorted());
    expect(chosen.length).toBeGreaterThan(20);
    expect(chosen.length).toBeLessThan(110);
  });

  it('answers as ever where the bucket is denied, counts what is lost, and warns once', async () => {
    const { host, score } = await startCapturing(name, 100, refusesXml(403, 'AccessDenied'));
    await score([lookupRequest(0), lookupRequest(1)]);
    await score([lookupRequest(2), { model_name: 'other', at: 1 }]);
    // A worker puts them when it ends.
    if (name === 'the function') await host.says('capture: ');
    await score([lookupRequest(0)]);
    await host.stop();
    expect(await host.says('CaptureLost')).toBeDefined();
    if (name === 'the worker') expect(sumOf('CaptureLost', host)).toBe(5);
    expect(host.written().filter(({ code }) => code !== undefined)).toEqual([]);
    const warnings = host
      .printed()
      .split('\n')
      .filter((line) => line.includes('capture: '));
    expect(warnings).toEqual([expect.stringMatching(/"WARN".*capture: \d messages? lost: .*AccessDenied/)]);
  });

  it('answers as ever where S3 never does, and keeps no more than it may hold', async () => {
    const { host, score } = await startCapturing(name, 100, neverAnswers);
    const large = (index: number) => ({ ...lookupRequest(index % 3), parameters: { note: 'x'.repeat(90_000) } });
    const messages = 200;
    const ids = await score(Array.from({ length: messages }, (_, index) => large(index)));
    expect(new Set((await host.answers(ids)).map(({ code }) => code))).toEqual(new Set([undefined]));
    await host.says('characters to wait for S3, got more');
    await host.stop();
    const lost = sumOf('CaptureLost', host);
    // 16 MiB are held; what the worker holds when it ends is lost too.
    if (name === 'the worker') expect(lost).toBe(messages);
    else expect(lost).toBe(messages - Math.floor((16 * 1024 * 1024) / (90_000 + 350)));
  });
});
