import { runCommand } from '../cli/arguments.ts';
import { simulateGather } from './measure/gatherSimulation.ts';
import { type GatherFigures, type GatherSettings, gatherTheory } from './measure/gatherTheory.ts';
import { table } from './report/markdownTable.ts';
import { type Arrivals, bursts, day, poisson } from './workload/arrivals.ts';

const REQUESTS = 50_000;

const CASES: readonly (readonly [Arrivals, GatherSettings])[] = [
  [poisson(20), { batchSize: 32, windowMs: 50 }],
  [poisson(200), { batchSize: 32, windowMs: 50 }],
  [poisson(1_000), { batchSize: 32, windowMs: 50 }],
  [poisson(1_000), { batchSize: 32, windowMs: 0 }],
  [poisson(1_000), { batchSize: 512, windowMs: 1_000 }],
  [bursts(20, 2_000), { batchSize: 32, windowMs: 50 }],
  [bursts(20, 2_000), { batchSize: 128, windowMs: 250 }],
  [day(5, 500), { batchSize: 32, windowMs: 50 }],
  [day(5, 500), { batchSize: 128, windowMs: 500 }],
];

/** Prints what the worker's gathering comes to, simulated and by theory. */
async function main(): Promise<number> {
  const rows = CASES.map(([arrivals, settings]) => {
    const [simulated, theory] = [simulateGather(arrivals, settings, REQUESTS), gatherTheory(arrivals, settings)];
    const both = (spell: (figures: GatherFigures) => string) => `${spell(simulated)} (${spell(theory)})`;
    return [
      arrivals.name,
      String(settings.batchSize),
      `${settings.windowMs} ms`,
      both(({ p50WaitMs }) => `${p50WaitMs.toFixed(1)} ms`),
      both(({ p99WaitMs }) => `${p99WaitMs.toFixed(1)} ms`),
      both(({ fill }) => `${(100 * fill).toFixed(1)} %`),
    ];
  });
  const heads = ['requests', 'batch size', 'window', 'wait p50 (theory)', 'wait p99 (theory)', 'fill (theory)'];
  process.stdout.write(`${table(heads, rows)}\n`);
  return 0;
}

await runCommand(main);
