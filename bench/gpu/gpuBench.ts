import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseOptions, runCommand, type Streams, UsageError } from '../../cli/arguments.ts';
import { figure, percent, size } from '../../cli/format.ts';
import { readGpus, readNvidiaDevices } from '../../lambda/onnx/provider.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { openProcesses, type Processes } from '../harness/processes.ts';
import { atLeast, table } from '../harness/report.ts';
import { describeMachine, type Machine } from '../harness/turns.ts';
import { openWorker } from '../measure/workerCost.ts';
import { chunks, drawMessages, encodeBody } from '../workload/messages.ts';
import { createRepository, type Repository } from '../workload/modelRepository.ts';
import type { GpuCalls, GpuTask } from './gpuCalls.ts';
import { encodeCopies, type GpuExtent, type GpuScenario, gpuScenarios } from './gpuScenarios.ts';

const EXTENTS = {
  full: { batches: [1, 8, 32, 128, 512], isSmall: false },
  small: { batches: [1, 4, 8], isSmall: true },
} as const satisfies Record<string, GpuExtent>;
const PARTS = gpuScenarios(EXTENTS.full).map(({ name }) => name);
/** Minimum duration of the measurement of a batch size. */
const MILLISECONDS = { full: 1_000, small: 100 };
/** Minimum duration of the worker's turn. */
const WORKER_MS = 2_000;

const HELP = `Usage: npm run bench:gpu -- [options]

Scores generated models on a GPU: by a bare session of ONNX Runtime, by the handler and by the worker, in the binary
form. For each number of rows in a run, or of messages in an event, it measures rows a second, latency, CPU time of a
row, the slow first run of a shape, and the time for copies alone. It takes about six minutes on an H100.

The results of each part are written as soon as it ends; parts that the file has are not measured again.

  --part NAME       measure only this one; repeat it or separate names by commas: ${PARTS.join(', ')}
  --provider NAME   execution provider of ONNX Runtime (default cuda)
  --small           small networks and batches, to rehearse on a processor
  --results PATH    where the JSON is written (default bench/results/gpu.json)
  --help            show this
`;

const RESULTS = fileURLToPath(new URL('../results/gpu.json', import.meta.url));
const CALLS = new URL('gpuCalls.ts', import.meta.url);

interface PartFigures {
  readonly bare: readonly GpuCalls[];
  /** Runs of a model that only reads the inputs. Empty for models on the processor. */
  readonly copies: readonly GpuCalls[];
  /** The handler with that model, at full batches: the most that the host can do. */
  readonly ceiling: readonly GpuCalls[];
  /** Events of each batch size, of all messages, and of packed messages. */
  readonly handler: readonly GpuCalls[];
  readonly worker: WorkerCalls;
  /** Bytes of a request's body. */
  readonly bodyBytes: number;
  readonly gpu: GpuUse | undefined;
  readonly seconds: number;
}

interface WorkerCalls {
  readonly rowsPerSecond: number;
  readonly cpuMicroseconds: number;
}

/** Readings of `nvidia-smi` while the handler scores. */
interface GpuUse {
  readonly meanPercent: number;
  /** Undefined if the device does not report its memory. */
  readonly maxMemoryMib: number | undefined;
}

export interface GpuResults {
  readonly machine: Machine;
  readonly devices: readonly string[];
  readonly driver: string | undefined;
  readonly provider: string;
  readonly isSmall: boolean;
  readonly measuredAt: string;
  readonly parts: Readonly<Record<string, PartFigures>>;
}

export async function gpuBench(args: readonly string[], streams: Streams): Promise<number> {
  const options = parseOptions(args, {
    part: { type: 'string', multiple: true, default: PARTS },
    provider: { type: 'string', default: 'cuda' },
    small: { type: 'boolean', default: false },
    results: { type: 'string', default: RESULTS },
  });
  const { provider, small: isSmall, results: path } = options;
  const extent = isSmall ? EXTENTS.small : EXTENTS.full;
  const names = options.part.flatMap((list) => list.split(','));
  const unknown = names.find((name) => !PARTS.includes(name));
  if (unknown !== undefined) throw new UsageError(`--part: expected one of ${PARTS.join(', ')}, got '${unknown}'`);

  let results = await readOrStart(path, provider, isSmall);
  for (const scenario of gpuScenarios(extent)) {
    if (!names.includes(scenario.name) || results.parts[scenario.name] !== undefined) continue;
    streams.stderr.write(`${scenario.name} ...\n`);
    const figures = await measurePart(scenario, extent, provider, MILLISECONDS[isSmall ? 'small' : 'full']);
    results = { ...results, parts: { ...results.parts, [scenario.name]: figures } };
    await writeFile(path, `${JSON.stringify(results)}\n`);
  }
  streams.stdout.write(renderMarkdown(results));
  return 0;
}

/** @throws UsageError if the file has results of another machine, device, provider or size */
async function readOrStart(path: string, provider: string, isSmall: boolean): Promise<GpuResults> {
  const nvidia = provider === 'cpu' ? undefined : await readNvidiaDevices();
  const started: GpuResults = {
    machine: describeMachine(),
    devices: nvidia?.names ?? [],
    driver: nvidia?.driver,
    provider,
    isSmall,
    measuredAt: new Date().toISOString(),
    parts: {},
  };
  const placeOf = ({ parts: _, measuredAt: __, ...place }: GpuResults): string => JSON.stringify(place);
  if (existsSync(path)) {
    const before: GpuResults = JSON.parse(await readFile(path, 'utf8'));
    if (placeOf(before) === placeOf(started)) return before;
    throw new UsageError(
      `--results: expected a file of this machine, provider and size, got ${placeOf(before)}; name another`,
    );
  }
  await mkdir(dirname(path), { recursive: true });
  // A path that cannot be written is found before anything is measured.
  await writeFile(path, `${JSON.stringify(started)}\n`);
  return started;
}

async function measurePart(
  scenario: GpuScenario,
  extent: GpuExtent,
  provider: string,
  milliseconds: number,
): Promise<PartFigures> {
  const startedAt = performance.now();
  const repositories = { model: await createRepository(), copies: await createRepository() };
  const processes = await openProcesses();
  try {
    const task = { part: scenario.name, extent, provider, milliseconds };
    await repositories.model.addModel(scenario);
    const bare = await ask(processes, { ...task, contestant: 'bare', modelsDirectory: repositories.model.directory });
    const { copies, ceiling } = scenario.isOnProcessor
      ? { copies: [], ceiling: [] }
      : await measureCopies(processes, scenario, repositories.copies, task);
    const watch = watchGpus(provider);
    const handler = await ask(processes, {
      ...task,
      contestant: 'handler',
      modelsDirectory: repositories.model.directory,
    });
    const gpu = await watch();
    const bodies = Array.from(drawMessages(scenario, scenario.messages), (message) => encodeBody(message, 'binary'));
    const worker = await measureWorker(scenario, provider, repositories.model.directory, bodies);
    const bodyBytes = Math.round(bodies.reduce((sum, body) => sum + body.length, 0) / bodies.length);
    return { bare, copies, ceiling, handler, worker, bodyBytes, gpu, seconds: (performance.now() - startedAt) / 1000 };
  } finally {
    await processes.stop();
    await Promise.all(Object.values(repositories).map((repository) => repository.remove()));
  }
}

async function measureCopies(
  processes: Processes,
  scenario: GpuScenario,
  repository: Repository,
  task: Omit<GpuTask, 'contestant' | 'modelsDirectory'>,
): Promise<Pick<PartFigures, 'copies' | 'ceiling'>> {
  const [{ inputs } = { inputs: [] }] = drawMessages(scenario, 1);
  await repository.addModel({ ...scenario, encodeModel: () => encodeCopies(inputs) });
  const ofCopies = { ...task, modelsDirectory: repository.directory };
  const full = { ...task.extent, batches: task.extent.batches.slice(-1) };
  return {
    copies: await ask(processes, { ...ofCopies, contestant: 'bare' }),
    ceiling: await ask(processes, { ...ofCopies, contestant: 'handler', extent: full }),
  };
}

/** Measures in a process of its own, which has the GPU to itself. */
async function ask(processes: Processes, task: GpuTask): Promise<GpuCalls[]> {
  const child = processes.start(CALLS);
  const figures = await child.ask<GpuCalls[]>(task);
  await child.stop();
  return figures;
}

async function measureWorker(
  { name, isOnProcessor, maxBatchElements, requestsPerMessage }: GpuScenario,
  provider: string,
  modelsDirectory: string,
  single: readonly string[],
): Promise<WorkerCalls> {
  const bodies = chunks(single, requestsPerMessage).map((some) => `[${some.join(',')}]`);
  const worker = await openWorker({
    [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
    [CONFIG_KEYS.defaultModel]: name,
    [CONFIG_KEYS.providers]: isOnProcessor ? 'cpu' : provider,
    [CONFIG_KEYS.maxBatchElements]: maxBatchElements === undefined ? undefined : String(maxBatchElements),
    [CONFIG_KEYS.resultsPerMessage]: '10000',
  });
  try {
    let [times, turn] = [1, await worker.turn({ bodies, messages: bodies.length })];
    // The worker is warm when a turn takes its time.
    while (turn.wallMs < WORKER_MS) {
      times = Math.ceil((1.2 * times * WORKER_MS) / turn.wallMs);
      turn = await worker.turn({ messages: times * bodies.length });
    }
    const scored = times * single.length;
    return {
      rowsPerSecond: (1000 * scored) / turn.wallMs,
      cpuMicroseconds: turn.cpuMicroseconds / scored,
    };
  } finally {
    await worker.stop();
  }
}

const READ_EVERY_MS = 500;

/** Reads the first GPU until the returned function is called. */
function watchGpus(provider: string): () => Promise<GpuUse | undefined> {
  if (provider === 'cpu') return async () => undefined;
  const ended = Promise.withResolvers<void>();
  const used: number[] = [];
  let maxMemoryMib: number | undefined;
  const reading = (async () => {
    let isEnded = false;
    void ended.promise.then(() => {
      isEnded = true;
    });
    while (!isEnded) {
      // If nvidia-smi fails, the part has all other figures.
      const [gpu] = await readGpus().catch(() => []);
      if (gpu?.usedPercent !== undefined) used.push(gpu.usedPercent);
      if (gpu?.memoryUsedMib !== undefined) maxMemoryMib = Math.max(maxMemoryMib ?? 0, gpu.memoryUsedMib);
      await Promise.race([ended.promise, new Promise((resolve) => setTimeout(resolve, READ_EVERY_MS))]);
    }
  })();
  return async () => {
    ended.resolve();
    await reading;
    if (used.length === 0) return undefined;
    return { meanPercent: used.reduce((sum, one) => sum + one, 0) / used.length, maxMemoryMib };
  };
}

/** Minimum speed at full batches, relative to the best bare runs, for models that keep a GPU busy. */
const MIN_OF_BARE = 0.9;
const BUSY = /^(encoder|convnet)/;

export function renderMarkdown({ machine, devices, driver, provider, isSmall, measuredAt, parts }: GpuResults): string {
  const { cpu, cores, memoryBytes, node, onnxruntime } = machine;
  const on = devices.length === 0 ? provider : `${provider} on ${[...new Set(devices)].join(', ')}, driver ${driver}`;
  const sections = [
    `${on}; ${cpu}, ${cores} cores, ${size(memoryBytes)}, Node ${node}, ONNX Runtime ${onnxruntime}; ${measuredAt}` +
      `${isSmall ? '; small networks' : ''}. Bold: misses its target.`,
    ...Object.entries(parts).map(
      ([name, part]) => `## ${name}, ${size(part.bodyBytes)} a request\n\n${renderPart(name, part)}`,
    ),
    ...gainOfHalves(parts),
  ];
  return `${sections.join('\n\n')}\n`;
}

/** Minimum gain of the encoder from half precision. */
const MIN_GAIN = 1.5;

function gainOfHalves(parts: GpuResults['parts']): string[] {
  return ['encoder', 'convnet'].flatMap((name) => {
    const [whole, half] = [parts[name], parts[`${name}-fp16`]].map((part) => part && fastest(part.handler));
    if (whole === undefined || half === undefined) return [];
    return `${name}: the handler is ${atLeast(name === 'encoder' ? MIN_GAIN : undefined, half / whole)} times as fast in FP16.`;
  });
}

function fastest(calls: readonly GpuCalls[]): number {
  return Math.max(...calls.map(({ rowsPerSecond }) => rowsPerSecond));
}

function renderPart(name: string, { bare, copies, ceiling, handler, worker, gpu, seconds }: PartFigures): string {
  const best = fastest(bare);
  const ms = (value: number | undefined): string => (value === undefined ? '' : `${figure(value)} ms`);
  const min = BUSY.test(name) ? MIN_OF_BARE : undefined;
  const isFull = (row: GpuCalls): boolean => row.batch > (bare.at(-1)?.batch ?? 0) || row.requestsPerMessage > 1;
  const gpuText =
    gpu &&
    `; GPU ${figure(gpu.meanPercent)} % in use, ${gpu.maxMemoryMib === undefined ? 'memory not reported' : `${figure(gpu.maxMemoryMib)} MiB at most`}`;
  const most =
    ceiling.length > 0 &&
    `The host alone, at full batches, with all messages, and packed: ${ceiling.map(({ rowsPerSecond }) => figure(rowsPerSecond)).join(', ')} rows/s. `;
  return [
    table(bare, {
      'bare, rows': ({ batch }) => String(batch),
      'rows/s': ({ rowsPerSecond }) => figure(rowsPerSecond),
      'p50, p99': ({ p50Ms, p99Ms }) => `${ms(p50Ms)}, ${ms(p99Ms)}`,
      'first run of a shape': ({ firstMs }) => `+${ms(Math.max(0, firstMs))}`,
      'copies alone': ({ batch }) => ms(copies.find((copy) => copy.batch === batch)?.p50Ms),
      'CPU a row': ({ cpuMicroseconds }) => `${figure(cpuMicroseconds)} µs`,
    }),
    table(handler, {
      'handler, messages': ({ batch, requestsPerMessage }) =>
        requestsPerMessage === 1 ? String(batch) : `${batch} of ${requestsPerMessage}`,
      'rows/s': ({ rowsPerSecond }) => figure(rowsPerSecond),
      'of the best bare': (row) => atLeast(isFull(row) ? min : undefined, row.rowsPerSecond / best),
      'p50, p99': ({ p50Ms, p99Ms }) => `${ms(p50Ms)}, ${ms(p99Ms)}`,
      'rows a run': ({ rowsPerRun }) => figure(rowsPerRun),
      'time in runs': ({ runShare }) => percent(runShare),
      'CPU a row': ({ cpuMicroseconds }) => `${figure(cpuMicroseconds)} µs`,
    }),
    `${most || ''}Worker, packed: ${figure(worker.rowsPerSecond)} rows/s, ${figure(worker.rowsPerSecond / best)} of the best bare, ` +
      `${figure(worker.cpuMicroseconds)} µs of CPU a row${gpuText ?? ''}. ${figure(seconds)} s in all.`,
  ].join('\n\n');
}

if (import.meta.main) await runCommand(gpuBench, HELP);
