import type { GpuFigures, GpuSettings } from '../measure/gpu.ts';
import type { Machine } from '../measure/machine.ts';
import { table } from './table.ts';

/** Everything that one run of the GPU's bench measured. */
export interface GpuResults extends GpuSettings {
  readonly machine: Machine & {
    readonly nvidia: { readonly driver: string; readonly names: readonly string[] } | null;
  };
  readonly models: readonly GpuFigures[];
}

/** Markdown: what is measured, rates and times, and what the first run of each shape costs. */
export function renderGpu({ machine, provider, card, models }: GpuResults): string {
  const where = card === null ? machine.cpu : `${machine.nvidia?.names[card]}, driver ${machine.nvidia?.driver}`;
  const rates = table(
    ['model', 'rows a run', 'session.run', 'pipeline', 'of it', 'one by one', 'alone p50', 'alone p99'],
    models.map((one) => [
      one.model,
      String(one.bestRows),
      perSecond(one.rawPerSecond),
      perSecond(one.pipelinePerSecond),
      `${(100 * one.ratio).toFixed(0)} %`,
      perSecond(one.oneByOnePerSecond),
      ms(one.lone.p50Ms),
      ms(one.lone.p99Ms),
    ]),
  );
  const shapes = table(
    ['model', 'load, cold', 'load, warm', 'rows', 'first, cold', 'again, cold', 'first, warm'],
    models.flatMap(({ model, firstSeen: { rows, withoutWarmUp: cold, withWarmUp: warm } }) =>
      rows.map((count, index) => [
        model,
        ms(cold.loadMs),
        ms(warm.loadMs),
        String(count),
        ms(cold.firstMs[index]),
        ms(cold.againMs[index]),
        ms(warm.firstMs[index]),
      ]),
    ),
  );
  return (
    `${provider} on ${where}, ONNX Runtime ${machine.onnxruntime}, Node ${machine.node}\n\nItems a second\n\n${rates}\n\n` +
    `Batches of a shape that was not seen before, without and with warm-up\n\n${shapes}\n`
  );
}

function perSecond(rate: number): string {
  return `${Math.round(rate).toLocaleString('en')}/s`;
}

function ms(value = Number.NaN): string {
  return `${value.toFixed(value < 10 ? 2 : 0)} ms`;
}
