import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseOptions, runCommand, type Streams, UsageError, wholeNumber } from '../../cli/arguments.ts';
import { describeMachine, type Machine } from '../harness/turns.ts';
import { drawMessages } from '../workload/messages.ts';
import { createRepository, type Repository } from '../workload/modelRepository.ts';
import { CONTESTANTS, type Contestant, endAll, install, type Served } from './contestants.ts';
import { writePage } from './page.ts';
import { agree, bodiesOf, bodyOf, FAULTS, type Fault, openOracle, WORKLOADS, type Workload } from './workloads.ts';

const NAMES = CONTESTANTS.map(({ name }) => name);
const HELP = `Usage: npm run bench:field -- [options]

Measures batchscore beside other servers of models, on this machine: rows a second, latency, CPU,
memory and start-up, and what becomes of answers when something goes wrong. The others are
installed into bench/field/.venv, which needs Python 3.11 and its package index; one that
cannot be installed or started is named, with why. docs/comparison.md says how each is set up.

  --quick           digits with 32 producers, one round, and three faults
  --part LIST       speed, faults (default both)
  --workload LIST   ${WORKLOADS.map(({ name }) => name).join(', ')} (default all)
  --only LIST       parts of names: ${NAMES.join('; ')}
  --rounds N        rounds of the speed part (default 3)
  --into FILE       JSON of the figures (default bench/results/field.json), written after each contestant;
                    what it has already is not measured again, so the same command goes on where it was ended
  --page            only write the tables of docs/comparison.md, from --into
  --help            show this
`;

/**
 * Figures of a turn. Latencies are per request, and `cpuMicroseconds` is per row over all processes of the contestant.
 */
type Turn = Record<'rowsPerSecond' | 'p50Ms' | 'p99Ms' | 'cpuMicroseconds' | 'memoryMb' | 'startMs', number>;

export interface SpeedFigures {
  readonly workload: string;
  readonly contestant: string;
  /** Rows in a request, and requests in a message. */
  readonly rows: number;
  readonly requests: number;
  readonly producers: number;
  readonly turns: readonly Turn[];
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
const PARTS = ['speed', 'faults'];
const QUICK_FAULTS = ['malformed', 'run throws for one row', 'model mixes rows'];

export async function benchField(args: readonly string[], streams: Streams): Promise<number> {
  const options = parseOptions(args, {
    quick: { type: 'boolean', default: false },
    part: { type: 'string', default: PARTS.join(',') },
    workload: { type: 'string' },
    only: { type: 'string' },
    rounds: { type: 'string' },
    into: { type: 'string', default: DEFAULT_FILE },
    page: { type: 'boolean', default: false },
  });
  if (options.page) {
    await writePage(JSON.parse(await readFile(options.into, 'utf8')));
    return 0;
  }
  const { quick } = options;
  const parts = chosen('--part', options.part, PARTS);
  const workloads = chosen('--workload', options.workload ?? (quick ? 'digits' : undefined), WORKLOADS, nameOf);
  const only = options.only?.split(',') ?? [''];
  const contestants = CONTESTANTS.filter(({ name }) => only.some((part) => name.includes(part)));
  if (contestants.length === 0) throw new UsageError(`--only: expected a part of ${NAMES.join('; ')}`);
  const rounds = wholeNumber('--rounds', options.rounds ?? (quick ? '1' : '3'), 1, 100);
  const say = (line: string) => void streams.stderr.write(`${line}\n`);

  process.env.ORT_DISABLE_TELEMETRY = '1';
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      endAll();
      process.exit(130);
    });
  }
  await mkdir(dirname(options.into), { recursive: true });
  const leftOut = await install(contestants, say);
  const present = contestants.filter(({ name }) => !leftOut.has(name));
  const repository = await createRepository();
  try {
    for (const workload of [...workloads, ...FAULTS.map((fault) => fault.workload)]) {
      await repository.addModel(workload);
      await repository.configure(workload, workload.maxBatch);
    }
    const run: Run = { repository, say, leftOut };
    const held: Partial<FieldFigures> = await readFile(options.into, 'utf8').then(JSON.parse, () => ({}));
    const keep = async (added: Partial<Added>): Promise<void> => {
      const text = JSON.stringify(merged(held, added, present, leftOut), rounded, 1);
      await writeFile(`${options.into}.part`, `${text}\n`);
      await rename(`${options.into}.part`, options.into);
    };
    for (let round = 0; parts.includes('speed') && round < rounds; round++) {
      for (const workload of workloads) {
        for (let place = 0; place < present.length; place++) {
          const first = Math.floor((round * present.length) / rounds);
          const contestant = present[(place + first) % present.length] as Contestant;
          const ways = waysOf(workload, contestant, quick);
          if (ways.every((way) => turnsOf(held, workload, contestant, way) > round)) continue;
          await keep({ speed: await measureSpeed(run, workload, contestant, ways) });
        }
      }
    }
    if (parts.includes('faults')) {
      for (const contestant of present) {
        const isHeld = (name: string) =>
          held.faults?.some((one) => one.fault === name && one.contestant === contestant.name) ?? false;
        const faults = FAULTS.filter(({ name }) => (!quick || QUICK_FAULTS.includes(name)) && !isHeld(name));
        if (faults.length > 0) await keep({ faults: await measureFaults(run, contestant, faults) });
      }
    }
  } finally {
    endAll();
    await repository.remove();
  }
  for (const [name, why] of leftOut) say(`left out: ${name}: ${why}`);
  streams.stdout.write(`${options.into}\n`);
  return 0;
}

const nameOf = ({ name }: { readonly name: string }): string => name;

function chosen<T>(
  option: string,
  list: string | undefined,
  all: readonly T[],
  name = String as (one: T) => string,
): T[] {
  const names = all.map(name);
  const wanted = list?.split(',') ?? names;
  const unknown = wanted.find((one) => !names.includes(one));
  if (unknown !== undefined) throw new UsageError(`${option}: expected ${names.join(', ')}, got '${unknown}'`);
  return all.filter((one) => wanted.includes(name(one)));
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

type Added = Pick<FieldFigures, 'speed' | 'faults'>;

/** Merges measurements into `held`, which it changes: it adds turns, and replaces the figures of faults. */
function merged(
  held: Partial<FieldFigures>,
  { speed = [], faults = [] }: Partial<Added>,
  contestants: readonly Contestant[],
  leftOut: ReadonlyMap<string, string>,
): FieldFigures {
  const merge = <T>(
    old: readonly T[] = [],
    some: readonly T[],
    key: (one: T) => string,
    join?: (a: T, b: T) => T,
  ): T[] => {
    const all = new Map(old.map((one) => [key(one), one]));
    for (const one of some) {
      const before = all.get(key(one));
      all.set(key(one), before === undefined || join === undefined ? one : join(before, one));
    }
    return [...all.values()];
  };
  const figures: FieldFigures = {
    date: new Date().toISOString().slice(0, 10),
    machine: describeMachine(),
    packages: { ...held.packages, ...Object.fromEntries(contestants.map(({ name, packages }) => [name, packages])) },
    leftOut: Object.fromEntries(leftOut),
    speed: merge(
      held.speed,
      speed,
      ({ turns: _, ...way }) => Object.values(way).join(' '),
      (a, b) => ({ ...a, turns: [...a.turns, ...b.turns] }),
    ),
    faults: merge(held.faults, faults, (one) => `${one.contestant} ${one.fault}`),
  };
  return Object.assign(held, figures);
}

/**
 * Warm-up after a start. V8 has then optimized the code, and batchscore has run its first 64 requests alone as well.
 */
const FIRST_WARM_UP_MS = 3_000;
const WARM_UP_MS = 500;
const MEASURED_MS = 2_000;
const BODIES = 128;
const PACKED = 100;

interface Way {
  readonly rows: number;
  readonly requests: number;
  readonly producers: number;
}

function waysOf({ name }: Workload, { packs }: Contestant, quick: boolean): Way[] {
  const producers = quick || name !== 'digits' ? [32] : [32, 1, 256];
  const ways: Way[] = producers.map((count) => ({ rows: 1, requests: 1, producers: count }));
  if (name === 'digits') ways.push({ rows: PACKED, requests: 1, producers: 32 });
  if (name === 'digits' && packs) ways.push({ rows: 1, requests: PACKED, producers: 32 });
  return ways;
}

function turnsOf({ speed = [] }: Partial<FieldFigures>, workload: Workload, { name }: Contestant, way: Way): number {
  const one = speed.find(
    ({ contestant, rows, requests, producers, ...own }) =>
      own.workload === workload.name &&
      contestant === name &&
      rows === way.rows &&
      requests === way.requests &&
      producers === way.producers,
  );
  return one?.turns.length ?? 0;
}

/** Measures one round of a contestant, after one start. */
async function measureSpeed(
  run: Run,
  workload: Workload,
  contestant: Contestant,
  ways: readonly Way[],
): Promise<SpeedFigures[]> {
  const single = bodiesOf(workload, BODIES);
  const many = ways.some(({ rows }) => rows > 1) ? bodiesOf(workload, BODIES, PACKED) : [];
  const packed = `[${Array.from({ length: PACKED }, (_, index) => single[index % single.length]).join(',')}]`;
  const figures: SpeedFigures[] = [];
  await serving(run, contestant, workload, async (served) => {
    for (const way of ways) {
      const bodies = way.requests > 1 ? [packed] : way.rows > 1 ? many : single;
      const turn = await measureTurn(served, way, bodies, figures.length === 0 ? FIRST_WARM_UP_MS : WARM_UP_MS);
      figures.push({ workload: workload.name, contestant: contestant.name, ...way, turns: [turn] });
      run.say(`${workload.name}, ${contestant.name}, ${JSON.stringify(way)}: ${JSON.stringify(turn, rounded)}`);
    }
  });
  return figures;
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
  { workload, culprit, right = 'answer', expected: own = [], happens }: Fault,
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
    const got = await reply(culprit, own, deadline);
    if (right === 'answer') return got;
    if (got === 'error') return 'right';
    return right === 'either' && got !== 'lost' ? 'right' : got;
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
  await Promise.all(asked.filter((_, index) => index !== CULPRIT || right !== 'error'));
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
