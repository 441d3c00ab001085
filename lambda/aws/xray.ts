import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import type { Stage, StageDetails } from '../core/observer.ts';
import type { Outcome } from '../core/record.ts';

import type { Telemetry } from './telemetry.ts';

interface TracingOptions {
  readonly serviceName: string;
  readonly send: SendDocument;
}

/** Traces each invocation that AWS has sampled, besides what `telemetry` does. Nothing is done for the others. */
export function withTracing(telemetry: Telemetry, { serviceName, send }: TracingOptions): Telemetry {
  let trace: Trace | undefined;
  const end = (): void => {
    if (trace !== undefined) send(trace.end());
    trace = undefined;
  };
  return {
    ...telemetry,
    observer: {
      ...telemetry.observer,
      stage: (...stage) => trace?.stage(...stage),
    },
    outcomes(outcomes, records) {
      telemetry.outcomes(outcomes, records);
      trace?.settled(outcomes);
    },
    hostEnds(reason) {
      end();
      telemetry.hostEnds(reason);
    },
    middlewares: [
      {
        before({ event: { Records } }) {
          const parent = readTraceHeader(headerOfInvocation());
          if (!parent?.sampled) return;
          trace = createTrace({ serviceName, parent, headers: Records.map((one) => one.attributes.AWSTraceHeader) });
        },
        after: end,
        onError: end,
      },
      ...telemetry.middlewares,
    ],
  };
}

/** What is traced of one invocation. */
export interface Trace {
  /** A stage has ended: readings of `performance.now()`. */
  stage(stage: Stage, from: number, to: number, details: StageDetails): void;
  settled(outcomes: readonly Outcome[]): void;
  /** The document for X-Ray: one subsegment of the function's segment, which holds those of the stages. */
  end(): string;
}

/** Of more stages, the longest are kept. */
const MOST_STAGES = 50;
/** @see https://docs.aws.amazon.com/xray/latest/devguide/xray-tracelinking.html */
const MOST_LINKS = 20;
/** @see https://docs.aws.amazon.com/xray/latest/devguide/xray-api-segmentdocuments.html */
const MOST_BYTES = 64_000;

interface Traced {
  readonly stage: Stage;
  readonly from: number;
  readonly to: number;
  readonly details: StageDetails;
}

interface Origin {
  /** What the documents are annotated with. */
  readonly serviceName: string;
  /** The function's segment. */
  readonly parent: TraceHeader;
  /** The tracing headers of the messages, undefined where their producers do not trace. */
  readonly headers: readonly (string | undefined)[];
}

export function createTrace({ serviceName, parent, headers }: Origin): Trace {
  const startedAt = performance.now();
  // An environment may have been frozen since the clock was started.
  const epochMs = Date.now() - startedAt;
  const seconds = (reading: number): number => Math.round((epochMs + reading) * 1000) / 1_000_000;
  const { links, linksLeftOut } = linksOf(headers, parent);
  const annotations: Record<string, string | number> = { service: serviceName, records: headers.length };
  const stages = keepLongest();
  let retried = 0;

  const timesOf = ({ from, to }: Pick<Traced, 'from' | 'to'>) => ({
    id: newId(),
    start_time: seconds(from),
    end_time: seconds(to),
  });
  return {
    stage(stage, from, to, details) {
      // What an invocation left behind may end in the next one.
      if (from >= startedAt) stages.add({ stage, from, to, details });
    },
    settled(outcomes) {
      retried = outcomes.filter(({ status }) => status === 'retry').length;
      Object.assign(annotations, { answered: outcomes.length - retried, retried });
    },
    end() {
      const { kept, leftOut } = stages.all();
      const document = {
        name: 'batchscore',
        type: 'subsegment',
        trace_id: parent.traceId,
        parent_id: parent.segmentId,
        ...timesOf({ from: startedAt, to: performance.now() }),
        ...(retried > 0 && { fault: true }),
        annotations,
        metadata: { batchscore: { stagesLeftOut: leftOut, linksLeftOut } },
        links,
      };
      const subsegments = kept.map((traced) => ({
        name: traced.stage,
        ...timesOf(traced),
        ...('failed' in traced.details && { fault: true }),
        metadata: { batchscore: traced.details },
      }));
      const text = JSON.stringify({ ...document, subsegments });
      return Buffer.byteLength(text) <= MOST_BYTES ? text : JSON.stringify(document);
    },
  };
}

function newId(): string {
  return randomBytes(8).toString('hex');
}

interface Link {
  readonly trace_id: string;
  readonly id: string;
}

/** The traces that sent the messages, each once. A trace that is not recorded leads nowhere. */
function linksOf(headers: Origin['headers'], { traceId: own }: TraceHeader) {
  const byTrace = new Map<string, Link>();
  for (const header of headers) {
    const { traceId, segmentId, sampled } = (header && readTraceHeader(header)) || NONE;
    if (sampled && traceId !== own && !byTrace.has(traceId)) byTrace.set(traceId, { trace_id: traceId, id: segmentId });
  }
  const links = [...byTrace.values()];
  return { links: links.slice(0, MOST_LINKS), linksLeftOut: Math.max(0, links.length - MOST_LINKS) };
}

const NONE: TraceHeader = { traceId: '', segmentId: '', sampled: false };

function keepLongest() {
  const leftOut: Partial<Record<Stage, { count: number; ms: number }>> = {};
  let kept: Traced[] = [];
  const prune = (): void => {
    kept.sort((a, b) => b.to - b.from - (a.to - a.from));
    for (const { stage, from, to } of kept.splice(MOST_STAGES)) {
      const { count, ms } = leftOut[stage] ?? { count: 0, ms: 0 };
      leftOut[stage] = { count: count + 1, ms: ms + to - from };
    }
  };
  return {
    add(traced: Traced): void {
      kept.push(traced);
      if (kept.length >= 2 * MOST_STAGES) prune();
    },
    all() {
      if (kept.length > MOST_STAGES) prune();
      kept = kept.toSorted((a, b) => a.from - b.from);
      return { kept, leftOut };
    },
  };
}

/** Where in which trace something was done, as X-Ray's tracing header says. */
interface TraceHeader {
  readonly traceId: string;
  /** The segment or subsegment that did it. */
  readonly segmentId: string;
  /** Whether the trace is recorded. */
  readonly sampled: boolean;
}

const TRACE_ID = /^1-[\da-f]{8}-[\da-f]{24}$/i;
const SEGMENT_ID = /^[\da-f]{16}$/i;

/**
 * Reads `Root=1-…;Parent=…;Sampled=1`. Undefined where there is none, or where it names no segment.
 *
 * @see https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader
 */
export function readTraceHeader(header = ''): TraceHeader | undefined {
  const fields = new Map(header.split(';').map((field) => splitOnce(field.trim())));
  const [traceId = '', segmentId = ''] = [fields.get('Root'), fields.get('Parent')];
  if (!TRACE_ID.test(traceId) || !SEGMENT_ID.test(segmentId)) return undefined;
  return { traceId, segmentId, sampled: fields.get('Sampled') === '1' };
}

function splitOnce(field: string): [string, string] {
  const end = field.indexOf('=');
  return [field.slice(0, end), field.slice(end + 1)];
}

/** The runtime's store of what belongs to an invocation, where it has one. */
interface WithInvokeStore {
  readonly awslambda?: { readonly InvokeStore?: { getXRayTraceId(): string | undefined } };
}

/** The tracing header of the invocation of now. The runtime of Managed Instances has it in its store alone. */
export function headerOfInvocation(): string | undefined {
  const { awslambda } = globalThis as WithInvokeStore;
  return awslambda?.InvokeStore?.getXRayTraceId() ?? process.env._X_AMZN_TRACE_ID;
}

/** Takes a document for X-Ray. Never throws and never waits: one that cannot be sent at once is lost. */
export type SendDocument = (document: string) => void;

const HEADER = '{"format":"json","version":1}\n';

/**
 * Sends documents to the X-Ray daemon by UDP, as Lambda's environment has one.
 *
 * @param address `AWS_XRAY_DAEMON_ADDRESS`: `host:port`, or `tcp:host:port udp:host:port`
 * @param warn told when it is neither; documents are then dropped, as requests are scored without traces too
 * @see https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html#xray-api-daemon
 */
export function connectToDaemon(address: string | undefined, warn: (message: string) => void): SendDocument {
  const daemon = parse(address);
  if (daemon === undefined) {
    warn(
      `AWS_XRAY_DAEMON_ADDRESS: expected host:port of the X-Ray daemon, because tracing is on, got ` +
        `${JSON.stringify(address ?? '')}; nothing is traced; Lambda sets it, elsewhere set it or turn tracing off`,
    );
    return () => {};
  }
  const socket = createSocket('udp4');
  let connected = false;
  socket.on('connect', () => {
    connected = true;
  });
  // Such as that nobody listens there.
  socket.on('error', () => {});
  socket.unref();
  socket.connect(daemon.port, daemon.host);
  return (document) => {
    if (connected) socket.send(`${HEADER}${document}`, () => {});
  };
}

function parse(address = ''): { readonly host: string; readonly port: number } | undefined {
  const { host, port } = /^(?:.*\budp:)?(?<host>[^\s:]+):(?<port>\d{1,5})(?:\s.*)?$/.exec(address)?.groups ?? {};
  return host !== undefined && Number(port) > 0 && Number(port) < 65_536 ? { host, port: Number(port) } : undefined;
}
