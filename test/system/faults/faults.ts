import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { answersJson, type Exchange, neverAnswers, refusesXml, type Step } from '../../helpers/frontServer.ts';
import { FAULTS, type Fault, randomOf, type SqsCall } from '../../helpers/strictSqs.ts';

/** What a call may meet, and how often in 10,000 calls. */
const FREQUENCIES = {
  latency: 800,
  throttled: 60,
  unavailable: 40,
  internal: 40,
  'cut before': 60,
  'cut after': 60,
  'half an answer': 40,
  'some entries fail': 60,
  silence: 4,
  'silence after': 4,
  duplicates: 80,
  denied: 10,
  missing: 10,
  expired: 10,
} as const;
export type FaultKind = keyof typeof FREQUENCIES;
/** Of invocations in a storm, those that Lambda refuses: a receive of each of their messages. */
const THROTTLED_SHARE = 0.05;

/** One of these in the wrong place costs a message one of its receives, as SQS counts; a silent store half of a timeout. */
const COSTS_A_RECEIVE: ReadonlySet<FaultKind> = new Set([
  ...(['duplicates', 'denied', 'missing', 'expired', 'silence', 'silence after'] as const),
]);
const RECEIVES_LOST: ReadonlySet<FaultKind> = new Set(['cut after', 'half an answer']);

export type Faults = ReturnType<typeof createFaults>;

/** Draws what goes wrong with the calls of SQS, DynamoDB and S3: now and then, by its seed, or all of a target for a while. */
export function createFaults(seed: number) {
  const random = randomOf(seed);
  const outages = new Map<string, FaultKind>();
  const counts: Partial<Record<FaultKind | 'mapping throttled', number>> = {};
  let isStormy = false;

  /** @param target a queue, `table`, or a bucket */
  const draw = (target: string, mayBe: (kind: FaultKind) => boolean): FaultKind | undefined => {
    let left = 10_000 * random();
    const outage = outages.get(target);
    const drawn = (Object.keys(FREQUENCIES) as FaultKind[]).find((kind) => {
      left -= FREQUENCIES[kind];
      return left < 0;
    });
    const kind = outage ?? (drawn !== undefined && mayBe(drawn) ? drawn : undefined);
    if (kind !== undefined) counts[kind] = (counts[kind] ?? 0) + 1;
    return kind;
  };
  const latency = async (): Promise<undefined> => void (await sleep(250 * random() ** 3));

  return {
    counts,
    random,
    /** Whether faults are drawn that cost messages a receive. An hour's outage takes all that they have. */
    storm(isOne: boolean): void {
      isStormy = isOne;
    },
    /** From now on every call of the target meets this. */
    begin: (target: string, kind: FaultKind): void => void outages.set(target, kind),
    end: (target: string): void => void outages.delete(target),
    /** Whether Lambda refuses an invocation. */
    throttles(): boolean {
      const isRefused = isStormy && random() < THROTTLED_SHARE;
      if (isRefused) counts['mapping throttled'] = (counts['mapping throttled'] ?? 0) + 1;
      return isRefused;
    },
    /** Between hosts and SQS. The event source mapping is AWS's own: it sees duplicates alone. */
    sqs(call: SqsCall, isExpired: boolean): Promise<Fault | undefined> | Fault | undefined {
      const { queue = '', operation, accessKey } = call;
      const isReceive = operation === 'ReceiveMessage';
      const ofMapping = accessKey === 'mapping';
      if (isExpired) return FAULTS.expired;
      const kind = draw(ofMapping ? '' : queue, (one) => {
        if (one === 'duplicates') return isStormy && isReceive && !queue.endsWith('.fifo');
        if (ofMapping || (isReceive && one === 'some entries fail')) return false;
        return isStormy || !(COSTS_A_RECEIVE.has(one) || (isReceive && RECEIVES_LOST.has(one)));
      });
      if (kind === undefined || (ofMapping && kind !== 'duplicates')) return undefined;
      if (kind === 'latency') return latency();
      if (kind === 'some entries fail') return () => random() < 0.5;
      return kind in FAULTS ? FAULTS[kind as keyof typeof FAULTS] : (kind as Fault);
    },
    /**
     * In front of DynamoDB or S3.
     *
     * @param targetOf what a call is to: `table`, or a bucket
     * @param took told of each call that the service has taken
     */
    front(service: 'dynamodb' | 's3', targetOf: (path: string) => string, took: (exchange: Exchange) => void): Step {
      return async (exchange) => {
        const kind = draw(targetOf(exchange.path), (one) => {
          if (one === 'duplicates' || (one === 'some entries fail' && service === 's3')) return false;
          return isStormy || !COSTS_A_RECEIVE.has(one);
        });
        if (kind !== undefined && kind in ERRORS) {
          const { table, bucket } = ERRORS[kind as keyof typeof ERRORS];
          const refuse = service === 's3' ? refusesXml(bucket[0], bucket[1]) : answersJson(table[0], errorOf(table[1]));
          return await refuse(exchange);
        }
        if (kind === 'latency') await latency();
        if (kind === 'silence') return await neverAnswers(exchange);
        if (kind === 'cut before') return void exchange.response.destroy();
        const left = kind === 'some entries fail' && service === 'dynamodb' ? halfOf(exchange.body, random) : undefined;
        const { status, headers, body } = await exchange.reach(left?.taken);
        if (status === 200) took(left === undefined ? exchange : { ...exchange, body: left.taken });
        if (kind === 'silence after') return;
        if (kind === 'cut after') return void exchange.response.destroy();
        if (kind === 'half an answer' && body.length > 1) {
          exchange.response.writeHead(status, headers);
          return void exchange.response.write(body.subarray(0, body.length / 2), () => exchange.response.destroy());
        }
        if (left !== undefined && status === 200) {
          return void exchange.response
            .writeHead(200, { 'content-type': 'application/x-amz-json-1.0' })
            .end(left.answer);
        }
        exchange.response.writeHead(status, headers).end(body);
      };
    },
  };
}

/** Status and code of each, as DynamoDB and S3 have them. */
const ERRORS = {
  throttled: { table: [400, 'ProvisionedThroughputExceededException'], bucket: [503, 'SlowDown'] },
  unavailable: { table: [503, 'ServiceUnavailable'], bucket: [503, 'ServiceUnavailable'] },
  internal: { table: [500, 'InternalServerError'], bucket: [500, 'InternalError'] },
  denied: { table: [400, 'AccessDeniedException'], bucket: [403, 'AccessDenied'] },
  missing: { table: [400, 'ResourceNotFoundException'], bucket: [404, 'NoSuchBucket'] },
  expired: { table: [400, 'ExpiredTokenException'], bucket: [400, 'ExpiredToken'] },
} as const;

function errorOf(code: string): object {
  return { __type: `com.amazonaws.dynamodb.v20120810#${code}`, message: code };
}

/** A write of several items, of which the table takes some. */
function halfOf(body: string, random: () => number): { readonly taken: string; readonly answer: string } | undefined {
  const { RequestItems } = JSON.parse(body) as { RequestItems: Record<string, object[]> };
  const [table = '', items = []] = Object.entries(RequestItems)[0] ?? [];
  const takes = items.map((_, index) => index === 0 || random() < 0.5);
  if (takes.every((one) => one)) return undefined;
  const those = (isTaken: boolean) => ({ [table]: items.filter((_, index) => takes[index] === isTaken) });
  return {
    taken: JSON.stringify({ RequestItems: those(true) }),
    answer: JSON.stringify({ UnprocessedItems: those(false) }),
  };
}

const REFRESHED_AFTER_MS = 8_000;
const EXPIRE_AFTER_MS = 20_000;
/** So long before they expire the SDK asks for others. */
const SDK_REFRESHES_MS = 300_000;

/** Gives hosts credentials that end in seconds, as a task of ECS gets them. The access key is the name that is asked for. */
export async function startCredentials() {
  const server = createServer(({ url = '' }, response) => {
    const Expiration = new Date(Date.now() + SDK_REFRESHES_MS + REFRESHED_AFTER_MS).toISOString();
    const keys = { AccessKeyId: url.slice(1), SecretAccessKey: 'secret', Token: String(Date.now()), Expiration };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(keys));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    isExpired: ({ sessionToken }: SqsCall): boolean => Date.now() - Number(sessionToken) > EXPIRE_AFTER_MS,
    stop(): void {
      server.closeAllConnections();
      server.close();
    },
  };
}
