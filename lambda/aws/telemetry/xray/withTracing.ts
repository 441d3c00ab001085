import type { Telemetry } from '../telemetry.ts';
import type { SendDocument } from './daemon.ts';
import { createTrace, type Trace } from './trace.ts';
import { headerOfInvocation, readTraceHeader } from './traceHeader.ts';

export interface TracingOptions {
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
