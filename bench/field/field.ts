import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { parseOptions, runCommand, type Streams, UsageError } from '../../cli/arguments.ts';
import { describeMachine, type Machine } from '../harness/turns.ts';
import { drawMessages } from '../workload/messages.ts';
import { createRepository, type Repository } from '../workload/modelRepository.ts';
import { writePage } from './page.ts';
import { behindQueue } from './peers/behindQueue.ts';
import { type Contestant, endAll, install, overHttp, python, type Served } from './serving.ts';
import { agree, bodiesOf, bodyOf, FAULTS, type Fault, openOracle, WORKLOADS, type Workload } from './workloads.ts';

const PLAIN = fileURLToPath(new URL('peers/plain.ts', import.meta.url));

const CONTESTANTS: readonly Contestant[] = [
  { name: 'batchscore, function', packages: [], packs: true, start: behindQueue('function') },
  { name: 'batchscore, worker', packages: [], packs: true, start: behindQueue('worker') },
  {
    name: 'plain HTTP',
    packages: [],
    start: overHttp([process.execPath, PLAIN]),
  },
  python('mosec', ['mosec==0.9.8', 'msgspec==0.20.0'], { path: '/inference' }),
  {
    ...python('mosec', ['mosec==0.9.8', 'msgspec==0.20.0'], { path: '/inference', environment: { FIELD_STAGES: '2' } }),
    name: 'mosec, two stages',
  },
  python('litserve', ['litserve==0.2.19'], { path: '/predict' }),
  python('ray', ['ray[serve]==2.60.0']),
  python('triton', ['nvidia-pytriton==0.7.0'], { path: '/v2/models/model/infer' }),
];

const NAMES = CONTESTANTS.map(({ name }) => name);
const HELP = `Usage: npm run bench:field -- [options]

Measures batchscore beside other servers of models, on this machine: rows a second, latency, CPU,
memory and start-up, and what becomes of answers when something goes wrong. The others are
installed into bench/field/.venv, which needs Python 3.11 and its package index; one that
cannot be installed or started is named, with why. docs/comparison.md says how each is set up.

  --quick           digits with 32 producers, one round, and three faults
  --only LIST       parts of names: ${NAMES.join('; ')}
  --into FILE       JSON of the figures (default bench/results/field.json), written after each contestant
  --page            only write the tables of docs/comparison.md, from --into
  --help            show this
`;

/**
 * Figures of a turn. Latencies are per request, and `cpuMicroseconds` is per row over all processes of the contestant.
 */
type Turn = Record<'rowsPerSecond' | 'p50Ms' | 'p99Ms' | 'cpuMicroseconds' | 'memoryMb' | 'startMs', number>;

interface Way {
  /** Rows in a request, and requests in a message. */
  readonly rows: number;
  readonly requests: number;
  readonly producers: number;
}

export interface SpeedFigures extends Way {
  readonly workload: string;
  readonly contestant: string;
  readonly turns: Turn[];
}

export interface FaultFigures {
  readonly contestant: string;
  readonly fault: string;
  readonly asked: number;
  /** Requests with the same answer as alone, and a culprit with the expected outcome. */
  readonly right: number;
  /** Requests with another answer than alone. */
  readonly differ: number;
  /** Valid requests that were answered with an error. */
  readonly harmed: number;
  readonly lost: number;
  /** Seconds from the fault to the next right answer. Null if there was none. */
  readonly recoverS: number | null;
}

export interface FieldFigures {
  readonly date: string;
  readonly machine: Machine;
  readonly packages: Readonly<Record<string, readonly string[]>>;
  readonly leftOut: Readonly<Record<string, string>>;
  readonly speed: readonly SpeedFigures[];
  readonly faults: readonly FaultFigures[];
}

const DEFAULT_FILE = fileURLToPath(new URL('../results/field.json', import.meta.url));
const ROUNDS = { full: 3, quick: 1 };
const QUICK_FAULTS = ['malformed', 'run throws for one row', 'model mixes rows'];

export async function benchField(args: readonly string[], streams: Streams): Promise<number> {
  const { quick, only, into, page } = parseOptions(args, {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    into: { type: 'string', default: DEFAULT_FILE },
    page: { type: 'boolean', default: false },
  });
  if (page) {
    await writePage(JSON.parse(await readFile(into, 'utf8')));
    return 0;
  }
  const contestants = CONTESTANTS.filter(({ name }) => only?.split(',').some((part) => name.includes(part)) ?? true);
  if (contestants.length === 0) throw new UsageError(`--only: expected a part of ${NAMES.join('; ')}`);
  const workloads = quick ? WORKLOADS.slice(0, 1) : WORKLOADS;
  const faults = quick ? FAULTS.filter(({ name }) => QUICK_FAULTS.includes(name)) : FAULTS;
  const rounds = quick ? ROUNDS.quick : ROUNDS.full;
  const say = (line: string) => void streams.stderr.write(`${line}\n`);

  process.env.ORT_DISABLE_TELEMETRY = '1';
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      endAll();
      process.exit(130);
    });
  }
  await mkdir(dirname(into), { recursive: true });
  const leftOut = await install(contestants, say);
  const present = contestants.filter(({ name }) => !leftOut.has(name));
  const repository = await createRepository();
  const speed: SpeedFigures[] = [];
  const found: FaultFigures[] = [];
  const keep = async (): Promise<void> => {
    const figures: FieldFigures = {
      date: new Date().toISOString().slice(0, 10),
      machine: describeMachine(),
      packages: Object.fromEntries(present.map(({ name, packages }) => [name, packages])),
      leftOut: Object.fromEntries(leftOut),
      speed,
      faults: found,
    };
    await writeFile(into, `${JSON.stringify(figures, rounded, 1)}\n`);
  };
  try {
    for (const workload of [...workloads, ...faults.map((fault) => fault.workload)]) {
      await repository.addModel(workload, workload.maxBatch);
    }
    const run: Run = { repository, say, leftOut };
    for (let round = 0; round < rounds; round++) {
      for (const workload of workloads) {
        for (let place = 0; place < present.length; place++) {
          const first = Math.floor((round * present.length) / rounds);
          const contestant = present[(place + first) % present.length] as Contestant;
          await measureSpeed(run, workload, contestant, waysOf(workload, contestant, quick), speed);
          await keep();
        }
      }
    }
    for (const contestant of present) {
      found.push(...(await measureFaults(run, contestant, faults)));
      await keep();
    }
  } finally {
    endAll();
    await repository.remove();
  }
  for (const [name, why] of leftOut) say(`left out: ${name}: ${why}`);
  streams.stdout.write(`${into}\n`);
  return 0;
}

interface Run {
  readonly repository: Repository;
  say(line: string): void;
  /** Reasons why contestants did not start, by name. */
  readonly leftOut: Map<string, string>;
}

/** Rounds figures to five digits. */
const rounded = (_: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value;

/**
 * Warm-up after a start. V8 has then optimized the code, and batchscore has run its first 64 requests alone as well.
 */
const FIRST_WARM_UP_MS = 3_000;
const WARM_UP_MS = 500;
const MEASURED_MS = 2_000;
const BODIES = 128;
const PACKED = 100;

function waysOf({ name }: Workload, { packs }: Contestant, quick: boolean): Way[] {
  const producers = quick || name !== 'digits' ? [32] : [32, 1, 256];
  const ways: Way[] = producers.map((count) => ({ rows: 1, requests: 1, producers: count }));
  if (name === 'digits') ways.push({ rows: PACKED, requests: 1, producers: 32 });
  if (name === 'digits' && packs) ways.push({ rows: 1, requests: PACKED, producers: 32 });
  return ways;
}

/** Measures one round of a contestant, after one start, and adds its turns to those of the same way before. */
async function measureSpeed(
  run: Run,
  workload: Workload,
  contestant: Contestant,
  ways: readonly Way[],
  all: SpeedFigures[],
): Promise<void> {
  const single = bodiesOf(workload, BODIES);
  const many = ways.some(({ rows }) => rows > 1) ? bodiesOf(workload, BODIES, PACKED) : [];
  const packed = `[${Array.from({ length: PACKED }, (_, index) => single[index % single.length]).join(',')}]`;
  await serving(run, contestant, workload, async (served) => {
    for (const [index, way] of ways.entries()) {
      const bodies = way.requests > 1 ? [packed] : way.rows > 1 ? many : single;
      const turn = await measureTurn(served, way, bodies, index === 0 ? FIRST_WARM_UP_MS : WARM_UP_MS);
      const figures = { workload: workload.name, contestant: contestant.name, ...way };
      const before = all.find(({ turns: _, ...other }) => isDeepStrictEqual(other, figures));
      if (before === undefined) all.push({ ...figures, turns: [turn] });
      else before.turns.push(turn);
      run.say(`${workload.name}, ${contestant.name}, ${JSON.stringify(way)}: ${JSON.stringify(turn, rounded)}`);
    }
  });
}

/** Starts a contestant for the duration of `use`. If it does not start, it records the reason and leaves it out. */
async function serving(
  { repository, leftOut, say }: Run,
  contestant: Contestant,
  workload: Workload,
  use: (served: Served) => Promise<void>,
): Promise<void> {
  const { name: model, maxBatch } = workload;
  const [probe = ''] = bodiesOf(workload, 1);
  let served: Served | undefined;
  try {
    served = await contestant.start({ repository: repository.directory, model, maxBatch, probe });
    await use(served);
  } catch (error) {
    leftOut.set(contestant.name, `${workload.name}: ${String(error).slice(0, 1000)}`);
    say(`${contestant.name} does not serve ${leftOut.get(contestant.name)}`);
  } finally {
    await served?.stop();
  }
}

/** Measures producers that each send the next request after an answer. @throws Error if an answer is an error */
async function measureTurn(served: Served, way: Way, bodies: readonly string[], warmUpMs: number): Promise<Turn> {
  let asked = 0;
  const drive = async (ms: number): Promise<number[]> => {
    const until = performance.now() + ms;
    const latencies: number[] = [];
    const producer = async (): Promise<void> => {
      while (performance.now() < until) {
        const startedAt = performance.now();
        await served.ask(bodies[asked++ % bodies.length] as string, AbortSignal.timeout(60_000));
        latencies.push(performance.now() - startedAt);
      }
    };
    await Promise.all(Array.from({ length: way.producers }, producer));
    return latencies.sort((a, b) => a - b);
  };
  await drive(warmUpMs);
  const [startedAt, before] = [performance.now(), served.usage()];
  const latencies = await drive(MEASURED_MS);
  const [wallMs, after] = [performance.now() - startedAt, served.usage()];
  const done = latencies.length * way.rows * way.requests;
  const at = (share: number): number =>
    latencies[Math.min(latencies.length - 1, Math.floor(share * latencies.length))] ?? 0;
  return {
    rowsPerSecond: (1000 * done) / wallMs,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    cpuMicroseconds: (1000 * (after.cpuMs - before.cpuMs)) / done,
    memoryMb: after.memoryMb,
    startMs: served.startMs,
  };
}

const ASKED = 32;
const CULPRIT = 16;
const LEAVING = 16;
const DEADLINE_MS = 100_000;
const PROBE_EVERY_MS = 250;

/** Measures the faults in order, with one start for each model. */
async function measureFaults(run: Run, contestant: Contestant, faults: readonly Fault[]): Promise<FaultFigures[]> {
  const figures: FaultFigures[] = [];
  for (const [workload, ofModel] of Map.groupBy(faults, (fault) => fault.workload)) {
    const oracle = await openOracle(workload);
    const messages = [...drawMessages(workload, ASKED)];
    const expected = await Promise.all(messages.map(oracle.alone));
    await oracle.close();
    await serving(run, contestant, workload, async (served) => {
      const found: Promise<void>[] = [];
      for (const fault of ofModel) {
        const { ended } = await measureFault(served, fault, messages.map(bodyOf), expected);
        const said = ended.then((one) => {
          figures.push({ contestant: contestant.name, fault: fault.name, ...one });
          run.say(`${contestant.name}, ${fault.name}: ${JSON.stringify(one, rounded)}`);
        });
        found.push(said);
      }
      await Promise.all(found);
    });
  }
  return figures;
}

type Reply = 'right' | 'differs' | 'error' | 'lost';

/**
 * @returns a promise that resolves when all requests have an outcome, except for a culprit that is expected to fail. It
 * may stay on a queue during the next fault.
 */
async function measureFault(
  served: Served,
  { workload, culprit, answer, happens }: Fault,
  bodies: readonly string[],
  expected: readonly number[][],
): Promise<{ ended: Promise<Omit<FaultFigures, 'contestant' | 'fault'>> }> {
  const reply = async (body: string, wanted: readonly number[], signal: AbortSignal): Promise<Reply> => {
    try {
      return agree(outputOf(await served.ask(body, signal), workload.output), wanted) ? 'right' : 'differs';
    } catch (error) {
      return error instanceof Error && error.constructor.name === 'Answered' ? 'error' : 'lost';
    }
  };
  const startedAt = performance.now();
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  const leave = new AbortController();
  const asked = bodies.map(async (body, index): Promise<Reply> => {
    // A client of a queue cannot disconnect from its answer, which stays in the queue.
    const leaves = happens === 'clients leave' && index < LEAVING && !served.keepsAnswers;
    if (culprit === undefined || index !== CULPRIT) {
      return await reply(body, expected[index] ?? [], leaves ? leave.signal : deadline);
    }
    const got = await reply(culprit, answer ?? [], deadline);
    return got === 'error' && answer === undefined ? 'right' : got;
  });
  if (happens !== undefined) await served.holdsSome();
  if (happens === 'clients leave') leave.abort();
  if (happens === 'server is killed') served.kill();
  let recoverS: number | null = null;
  const [first = ''] = bodies;
  while (recoverS === null && performance.now() - startedAt < DEADLINE_MS) {
    const got = await reply(first, expected[0] ?? [], AbortSignal.timeout(5_000));
    // If the model's rows depend on each other, the right answer is the one alone.
    if (got === 'right') recoverS = (performance.now() - startedAt) / 1000;
    else await sleep(PROBE_EVERY_MS);
  }
  await Promise.all(asked.filter((_, index) => index !== CULPRIT || culprit === undefined || answer !== undefined));
  const count = (which: Reply, some: readonly Reply[]): number => some.filter((one) => one === which).length;
  const ended = Promise.all(asked).then((replies) => ({
    asked: bodies.length,
    right: count('right', replies),
    differ: count('differs', replies),
    harmed: count('error', culprit === undefined ? replies : replies.toSpliced(CULPRIT, 1)),
    lost: count('lost', replies),
    recoverS,
  }));
  return { ended };
}

/** Returns the numbers of an answer. JSON from Python may contain NaN. */
function outputOf(answer: string, name: string): number[] {
  const { outputs = [] }: { outputs?: { name: string; data: unknown[] }[] } = JSON.parse(
    answer.replaceAll(/\bNaN\b(?!")/g, '"NaN"'),
  );
  return (outputs.find((output) => output.name === name)?.data ?? []).map(Number);
}

if (import.meta.main) await runCommand(benchField, HELP);
