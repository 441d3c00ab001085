import type { MeasuredRun, Model } from '../../core/model.ts';

/** A model that remembers what its runs took. */
export interface RecordedRuns {
  readonly model: Model;
  /** The least that runs of each size took, in the order in which sizes were first run: the first of them is slow. */
  measured(): readonly MeasuredRun[];
  /** How often it was run at this size. */
  timesAt(rows: number, length: number): number;
}

interface Recorded {
  least: MeasuredRun;
  times: number;
}

export function recordRuns(model: Model): RecordedRuns {
  const recorded = new Map<string, Recorded>();
  const indexOfRagged = model.ragged?.inputs.findIndex((input) => input !== undefined) ?? -1;
  const raggedAxis = model.ragged?.inputs[indexOfRagged]?.axis ?? -1;
  return {
    model: {
      ...model,
      async run(inputs, signal, card) {
        const rows = inputs[0]?.shape[0] ?? 0;
        const length = inputs[indexOfRagged]?.shape[raggedAxis] ?? 1;
        const result = await model.run(inputs, signal, card);
        const key = `${rows}x${length}`;
        const known = recorded.get(key);
        const least = { rows, length, ms: Math.min(result.runMs, known?.least.ms ?? result.runMs) };
        recorded.set(key, { least, times: (known?.times ?? 0) + 1 });
        return result;
      },
    },
    measured: () => [...recorded.values()].map(({ least }) => least),
    timesAt: (rows, length) => recorded.get(`${rows}x${length}`)?.times ?? 0,
  };
}
