import type { ProfileReport } from '../../report.ts';
import { fromZero } from '../charts/scale.ts';
import { stepsChart } from '../charts/stepsChart.ts';
import { figure } from '../figure.ts';
import { data, figure as digits, duration, short } from '../format.ts';
import type { Markup } from '../html.ts';
import { table } from '../table.ts';

const STEPS = [
  ['processMs', 'process'],
  ['libraryMs', 'ONNX Runtime'],
  ['loadMs', 'model'],
  ['warmUpMs', 'warm-up, checks'],
] as const;

/** What the start of a process took, step by step. */
export function coldStartFigure({ measured: { coldStart } }: ProfileReport): Promise<Markup> {
  let total = 0;
  const steps = STEPS.map(([key, name]) => {
    const from = total;
    total += coldStart[key];
    return { name, from, to: total, label: duration(coldStart[key]), ms: coldStart[key] };
  });
  const slowest = steps.reduce((most, step) => (step.ms > most.ms ? step : most));
  return figure({
    id: 'cold-start',
    title: 'Cold start, step by step',
    essence: `A fresh process is ready after ${duration(total)}; ${duration(slowest.ms)} of that are the step “${slowest.name}”. Timed on this machine, without what AWS takes before the process.`,
    chart: (size) => stepsChart({ x: fromZero([total], 'milliseconds', short), steps }, size),
    table: table(
      'Cold start',
      [{ head: 'step', isText: true }, 'ms'],
      steps.map(({ name, ms }) => ({ cells: [name, data(ms, digits(ms))] })),
    ),
  });
}
