import { randomBytes } from 'node:crypto';
import type { Stage, StageDetails } from '../../../core/observer.ts';
import type { Outcome } from '../../../core/record.ts';
import { readTraceHeader, type TraceHeader } from './traceHeader.ts';

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

export interface Origin {
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
