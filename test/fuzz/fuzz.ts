/**
 * `npm run fuzz -- --cases N --seed S`: hostile input to every way into the product. Cases run in a child process, so that
 * one that ends or hangs it is found by its number, with all others; the same seed and number give the same case again.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createRandom, type Random } from '../../bench/workload/random.ts';
import { exitCodeOf, parseOptions, runCommand, type Streams, UsageError, wholeNumber } from '../../cli/arguments.ts';
import type { Target } from './target.ts';

const HELP = `Usage: npm run fuzz -- [--cases N] [--seed S] [--case NUMBER] [--target NAME]

Hostile input through the handler, and to everything that reads what others wrote. Ends with 1 where a case ended or hung
its process, took more than a second of CPU, was answered with anything but scores or a known error, harmed a sound
neighbour, got another answer alone, or where memory grew.

  --cases N      how many [50000]
  --seed S       the same seed gives the same cases [1]
  --case NUMBER  this case alone, with what it is
  --target NAME  cases of this kind alone
  --help         show this
`;

/** Cases that go together: the records of one invocation. */
const BATCH = 16;
/** Cases of one process; what it holds of memory is compared from the first tenth on. */
const CASES_A_PROCESS = 50_000;
/** Sessions of ONNX Runtime for Node leak: few models a process. */
const GRAPHS_A_PROCESS = 160;
const MAX_CPU_MS = 1_000;
/** Without a word for so long a process hangs: far beyond what a busy machine makes of a second. */
const SILENCE_MS = 90_000;
const MAX_GROWTH_MIB = 24;
/** Characters of a finding that are told. */
const MAX_SHOWN = 4_000;

/** By kind, and how many of sixteen batches are of it. */
const KINDS: readonly (readonly [name: string, share: number, open: () => Promise<Target>])[] = [
  ['records', 9, async () => (await import('./records.ts')).openRecords()],
  ...['config', 'environment', 'stack', 'model', 'result'].map(
    (name) => [name, name === 'result' ? 2 : 1, async () => (await import('./readers.ts')).openReader(name)] as const,
  ),
  ...['jsonl', 'csv', 'parquet'].map(
    (name) => [name, 1, async () => (await import('./files.ts')).openFiles(name)] as const,
  ),
  ['graphs', 0, async () => (await import('./graphs.ts')).openGraphs()],
];
const SHARES = KINDS.flatMap(([name, share]) => new Array<string>(share).fill(name));

interface Finding {
  readonly number: number;
  readonly kind: string;
  readonly problem: string;
  readonly input?: string;
}

type Counts = Record<string, number>;

/** What a process reports, a line each: the batch that it begins, what it found, and at its end its account. */
type Line =
  | { readonly at: number }
  | { readonly finding: Finding }
  | {
      readonly account: {
        readonly cases: Counts;
        readonly answers: Counts;
        readonly slowestMs: number;
        readonly grownMiB: number;
      };
    };

interface Plan {
  readonly seed: number;
  readonly from: number;
  readonly to: number;
  readonly target?: string | undefined;
}

export async function fuzz(args: readonly string[], streams: Streams): Promise<number> {
  const { stdout } = streams;
  const text = { type: 'string' } as const;
  const options = { cases: text, seed: text, case: text, target: text, plan: text, help: { type: 'boolean' } } as const;
  const values = parseOptions(args, options);
  if (values.help) {
    stdout.write(HELP);
    return 0;
  }
  // Models that are still open would keep the process alive.
  if (values.plan !== undefined)
    process.exit(await exitCodeOf(() => runCases(JSON.parse(values.plan ?? ''), stdout), [], streams));
  const cases = wholeNumber('--cases', values.cases ?? '50000', 1, 1e9);
  const seed = wholeNumber('--seed', values.seed ?? '1', 0, 2 ** 31);
  const { target } = values;
  if (target !== undefined && !KINDS.some(([name]) => name === target)) {
    throw new UsageError(`--target: expected one of ${KINDS.map(([name]) => name).join(', ')}, got '${target}'`);
  }
  const alone = values.case === undefined ? undefined : wholeNumber('--case', values.case, 0, 1e9);
  const plan = { seed, from: alone ?? 0, to: alone === undefined ? cases : alone + 1, target };
  if (alone !== undefined) stdout.write(`${(await caseOf(plan, alone, openTargets())).input}\n`);
  const total = { cases: {} as Counts, answers: {} as Counts, slowestMs: 0, grownMiB: 0 };
  const findings: Finding[] = [];
  const startedAt = performance.now();
  const some = target === 'graphs' ? GRAPHS_A_PROCESS : CASES_A_PROCESS;
  for (let from = plan.from; from < plan.to; from += some) {
    const to = Math.min(plan.to, from + some);
    for (const line of await runGuarded({ ...plan, from, to })) {
      if ('finding' in line) {
        findings.push(line.finding);
        const { number, kind, problem, input = '' } = line.finding;
        stdout.write(`case ${number} (${kind}): ${problem}\n  ${JSON.stringify(input.slice(0, MAX_SHOWN))}\n`);
        stdout.write(
          `  again: npm run fuzz -- --seed ${seed} --case ${number}${target ? ` --target ${target}` : ''}\n`,
        );
      } else if ('account' in line) {
        addTo(total.cases, line.account.cases);
        addTo(total.answers, line.account.answers);
        total.slowestMs = Math.max(total.slowestMs, line.account.slowestMs);
        total.grownMiB = Math.max(total.grownMiB, line.account.grownMiB);
      }
    }
  }
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  const count = Object.values(total.cases).reduce((sum, some) => sum + some, 0);
  stdout.write(
    `${count} cases of seed ${seed} in ${seconds} s: ${listed(total.cases)}\n` +
      `answered: ${listed(total.answers)}${batchedShare(total.answers)}\n` +
      `slowest case ${total.slowestMs} ms of CPU, memory grew by ${total.grownMiB} MiB at most, ${findings.length} findings\n`,
  );
  const exitCode = findings.length > 0 ? 1 : 0;
  // The models with which the case was made are still open.
  if (alone !== undefined) process.exit(exitCode);
  return exitCode;
}

function addTo(total: Counts, some: Counts): void {
  for (const [name, count] of Object.entries(some)) total[name] = (total[name] ?? 0) + count;
}

function listed(counts: Counts): string {
  return Object.entries(counts)
    .toSorted(([, a], [, b]) => b - a)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ');
}

/** The share of the generated models with independent rows whose requests shared runs. */
function batchedShare({ 'sound, batched': batched = 0, 'sound, alone': alone = 0 }: Counts): string {
  if (batched + alone === 0) return '';
  return `; of the sound ones ${((100 * batched) / (batched + alone)).toFixed(1)} % were batched`;
}

/** Runs cases in processes; goes on behind a batch that ended or hung one, once each of its cases has been run alone. */
async function runGuarded(plan: Plan): Promise<Line[]> {
  const lines: Line[] = [];
  for (let from = plan.from; from < plan.to; ) {
    const { said, ended } = await runProcess({ ...plan, from });
    lines.push(...said);
    if (ended === undefined) return lines;
    const batch = said.findLast((line) => 'at' in line)?.at ?? from;
    if (plan.to - plan.from === 1) {
      const { kind, input } = await caseOf(plan, from, openTargets());
      return [...lines, { finding: { number: from, kind, problem: `the process ${ended}`, input } }];
    }
    for (let number = batch; number < Math.min(batch + BATCH, plan.to); number++) {
      lines.push(...(await runGuarded({ ...plan, from: number, to: number + 1 })).filter((line) => 'finding' in line));
    }
    from = batch + BATCH;
  }
  return lines;
}

async function runProcess(plan: Plan): Promise<{ readonly said: Line[]; readonly ended: string | undefined }> {
  // A heap in which nothing that a case may take is hidden.
  const flags = ['--expose-gc', '--max-old-space-size=512'];
  const args = [...flags, fileURLToPath(import.meta.url), '--plan', JSON.stringify(plan)];
  const child: ChildProcess = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ORT_DISABLE_TELEMETRY: '1', AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local' },
  });
  const said: Line[] = [];
  let complaint = '';
  let isSilent = false;
  const silence = setTimeout(() => {
    isSilent = true;
    child.kill('SIGKILL');
  }, SILENCE_MS);
  child.stderr?.on('data', (data) => {
    complaint = `${complaint}${data}`.slice(-1_500);
  });
  const closed = new Promise<number | string>((resolve) => {
    child.on('close', (code, signal) => resolve(code ?? signal ?? ''));
  });
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    silence.refresh();
    if (line.startsWith('{"fuzz":')) said.push(JSON.parse(line).fuzz);
  }
  const code = await closed;
  clearTimeout(silence);
  const ended = isSilent ? `said nothing for ${SILENCE_MS / 1000} s` : `ended with ${code}: ${complaint}`;
  return { said, ended: code === 0 ? undefined : ended };
}

type Targets = (kind: string) => Promise<Target>;

function openTargets(): Targets & { close(): Promise<Counts> } {
  const opened = new Map<string, Promise<Target>>();
  const open = (kind: string): Promise<Target> => {
    const [, , opener] = KINDS.find(([name]) => name === kind) as (typeof KINDS)[number];
    const target = opened.get(kind) ?? opener();
    opened.set(kind, target);
    return target;
  };
  return Object.assign(open, {
    close: async () => {
      const answers: Counts = {};
      for (const opening of opened.values()) {
        const target = await opening;
        addTo(answers, target.answers ?? {});
        await target.close?.();
      }
      return answers;
    },
  });
}

function randomOf(seed: number, number: number): Random {
  const random = createRandom(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
  random.next();
  return random;
}

/** @returns what the case is: it depends on the seed and its number alone */
async function caseOf({ seed, target }: Plan, number: number, targets: Targets) {
  const batch = Math.floor(number / BATCH);
  const kind = target ?? (SHARES[randomOf(seed, -1 - batch).below(SHARES.length)] as string);
  const random = randomOf(seed, number);
  return { kind, number, input: (await targets(kind)).make(random) };
}

/** In the child. */
async function runCases(plan: Plan, stdout: Streams['stdout']): Promise<number> {
  const targets = openTargets();
  // A pipe is written at once: the last line is there whatever becomes of the process.
  const say = (line: Line): void => void stdout.write(`${JSON.stringify({ fuzz: line })}\n`);
  const account = { cases: {} as Counts, answers: {} as Counts, slowestMs: 0, grownMiB: 0 };
  let settled = 0;
  for (let at = plan.from; at < plan.to; at = (Math.floor(at / BATCH) + 1) * BATCH) {
    say({ at });
    const end = Math.min(plan.to, (Math.floor(at / BATCH) + 1) * BATCH);
    const numbers = Array.from({ length: end - at }, (_, index) => at + index);
    const batch = await Promise.all(numbers.map((number) => caseOf(plan, number, targets)));
    const { kind } = batch[0] as (typeof batch)[0];
    const target = await targets(kind);
    const check = (inputs: readonly string[]) => target.check(inputs, randomOf(plan.seed, at));
    const { found, cpuMs } = await timed(() => check(batch.map(({ input }) => input)));
    account.cases[kind] = (account.cases[kind] ?? 0) + batch.length;
    for (const [index, { number, input }] of batch.entries()) {
      const problem =
        found[index] ?? (cpuMs > MAX_CPU_MS && !target.isUnlimited ? await tooSlow(() => check([input])) : undefined);
      if (problem === undefined) continue;
      const alone = (text: string) => timed(() => check([text])).then(({ found: [one] }) => one);
      say({
        finding: {
          number,
          kind,
          problem: problem.slice(0, MAX_SHOWN),
          input: (target.isUnlimited ? input : await smallest(input, target.headLines ?? 0, alone)).slice(0, MAX_SHOWN),
        },
      });
    }
    if (cpuMs <= MAX_CPU_MS) account.slowestMs = Math.max(account.slowestMs, Math.round(cpuMs));
    const share = (at - plan.from) / (plan.to - plan.from);
    if (settled === 0 && share > 0.1) settled = heapMiB();
  }
  if (settled > 0) account.grownMiB = Math.max(0, heapMiB() - settled);
  if (account.grownMiB > MAX_GROWTH_MIB && plan.target !== 'graphs') {
    const problem = `memory grew by ${account.grownMiB} MiB from here to case ${plan.to}`;
    say({ finding: { number: plan.from, kind: 'memory', problem } });
  }
  addTo(account.answers, await targets.close());
  say({ account });
  return 0;
}

/** How long a check takes of all cores; what it throws is a finding of the first case. */
async function timed(check: () => Promise<readonly (string | undefined)[]>) {
  const before = process.cpuUsage();
  const found = await check().catch((error: Error) => [`it threw ${error.stack}`]);
  const { user, system } = process.cpuUsage(before);
  return { found, cpuMs: (user + system) / 1000 };
}

/** The machine may have been busy: only what is slow again, twice, is. */
async function tooSlow(check: () => Promise<readonly (string | undefined)[]>): Promise<string | undefined> {
  const times = [(await timed(check)).cpuMs, (await timed(check)).cpuMs];
  const best = Math.round(Math.min(...times));
  return best > MAX_CPU_MS ? `it took ${best} ms of CPU` : undefined;
}

/** Checks that an input is made smaller by. */
const MAX_SHRINKS = 300;

/** The input with everything left out without which it is still wrong, alone. */
async function smallest(
  input: string,
  headLines: number,
  problemOf: (text: string) => Promise<string | undefined>,
): Promise<string> {
  const head = input.split('\n', headLines).join('\n').length;
  let text = input;
  let tries = 0;
  const first = await problemOf(text);
  if (first === undefined) return text;
  for (let size = Math.ceil(text.length / 2); size >= 1 && tries < MAX_SHRINKS; size = Math.floor(size / 2)) {
    for (let at = head; at < text.length && tries < MAX_SHRINKS; tries++) {
      const shorter = text.slice(0, at) + text.slice(at + size);
      const problem = await problemOf(shorter);
      // What is no input any more is thrown over.
      if (problem === undefined || (problem.includes('it threw') && !first.includes('it threw'))) at += size;
      else text = shorter;
    }
  }
  return text;
}

function heapMiB(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return Math.round((heapUsed + external) / 2 ** 20);
}

if (import.meta.main) await runCommand(fuzz);
