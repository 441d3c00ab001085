/** Where in which trace something was done, as X-Ray's tracing header says. */
export interface TraceHeader {
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
