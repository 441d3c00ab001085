/**
 * Keeps the function and a worker under steady load, and models opened and closed, and looks whether anything grows: `npm run
 * test:soak`. Draws it to `soak.svg`, and ends with 1 where a slope is more than noise.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { asksForHelp, type Main, parseOptions, runCommand, UsageError, wholeNumber } from '../../../cli/arguments.ts';
import { openRepository } from '../../../lambda/onnx/repository.ts';
import { randomOf, redrivePolicy, type StrictSqs, startStrictSqs } from '../../helpers/strictSqs.ts';
import { type Fleet, startFunctions, startWorkers, type Variables } from './fleets.ts';
import { message, putModels } from './messages.ts';

const USAGE = `usage: npm run test:soak -- [--minutes N] [--rate R] [--svg FILE] [--json]

  --minutes  of load. Default 2
  --rate     messages a second, to each host. Default 50
  --svg      where the charts are drawn. Default soak.svg
  --json     the figures as JSON`;

const OPENINGS = 200;
/** What is measured while everything is new says nothing: code is compiled, caches fill, the heap finds its size. */
const WARM_UP_SHARE = 1 / 3;
const MIB = 1024 * 1024;

interface Series {
  readonly name: string;
  /** Growth that is of no interest, over the whole run. */
  readonly least: number;
  /** One value for each step, in order. */
  readonly values: number[];
}

interface Soaked {
  readonly title: string;
  readonly fleet: Fleet;
  readonly series: { readonly rss: Series; readonly handles: Series; readonly delay: Series; readonly latency: Series };
  send(count: number): void;
  /** Takes a sample of what was answered since the last one. */
  sample(): Promise<void>;
  counts(): { readonly sent: number; readonly answered: number };
}

async function soak(title: string, sqs: StrictSqs, models: string): Promise<Soaked> {
  const [requests, results] = [`requests-${title}`, `results-${title}`];
  const RedrivePolicy = redrivePolicy(sqs.createQueue(`dead-${title}`), 5);
  const queueUrl = sqs.createQueue(requests, { VisibilityTimeout: '60', RedrivePolicy });
  const variables: Variables = {
    AWS_ENDPOINT_URL_SQS: sqs.endpoint,
    BATCHSCORE_MODELS_DIR: models,
    BATCHSCORE_REQUEST_QUEUE_URL: queueUrl,
    BATCHSCORE_RESULT_QUEUE_URL: sqs.createQueue(results),
    BATCHSCORE_BATCH_SIZE: '100',
    NODE_OPTIONS: `--import ${new URL('./soakProbe.mjs', import.meta.url).href}`,
  };
  const limits = { batchSize: 100, concurrency: 1, timeoutSeconds: 30 };
  const fleet =
    title === 'worker' ? await startWorkers(variables, title) : await startFunctions(variables, queueUrl, limits);
  const series = {
    rss: { name: 'resident memory, MiB', least: 24, values: [] as number[] },
    handles: { name: 'open files and sockets', least: 8, values: [] as number[] },
    delay: { name: 'event loop delay (p99), ms', least: 25, values: [] as number[] },
    latency: { name: 'latency (median), ms', least: 100, values: [] as number[] },
  };
  const random = randomOf(1);
  const sentAt = new Map<string, number>();
  let [sent, answered, read] = [0, 0, 0];
  return {
    title,
    fleet,
    series,
    send(count) {
      for (let index = 0; index < count; index++) {
        const one = message(sent++, random);
        // There is no bucket here.
        const { body } = one.isPayload ? message(0, () => 0) : one;
        sentAt.set(sqs.sendMessage(requests, body), Date.now());
      }
    },
    async sample() {
      const latencies: number[] = [];
      const history = sqs.history(results, read);
      read += history.length;
      for (const { body, sentAt: at } of history) {
        const id: string = [JSON.parse(body)].flat()[0].message_id;
        const from = sentAt.get(id);
        if (from === undefined) continue;
        sentAt.delete(id);
        latencies.push(at - from);
        answered += 1;
      }
      const [pid = 0] = fleet.pids();
      const status = await readFile(`/proc/${pid}/status`, 'utf8');
      series.rss.values.push(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024);
      series.handles.values.push((await readdir(`/proc/${pid}/fd`)).length);
      const delays = fleet.printed().match(/(?<="soak":)[\d.]+/g) ?? [];
      series.delay.values.push(Number(delays.at(-1) ?? 0));
      const middle = latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length / 2)];
      series.latency.values.push(middle ?? series.latency.values.at(-1) ?? 0);
    },
    counts: () => ({ sent, answered }),
  };
}

interface Slope {
  /** From the beginning to the end of what is looked at. */
  readonly growth: number;
  readonly mean: number;
  readonly isBeyondNoise: boolean;
}

/**
 * Of the straight line through the values after the warm-up. It is beyond noise where it grows by more than a twentieth of
 * the mean, than what is of no interest, and than twice what the values scatter around it.
 */
function slopeOf({ values, least }: Series): Slope {
  const looked = values.slice(Math.floor(values.length * WARM_UP_SHARE));
  const count = looked.length;
  const mean = looked.reduce((sum, value) => sum + value, 0) / count;
  const middle = (count - 1) / 2;
  const spread = looked.reduce((sum, _, index) => sum + (index - middle) ** 2, 0);
  const slope = looked.reduce((sum, value, index) => sum + (index - middle) * (value - mean), 0) / spread;
  const off = looked.map((value, index) => (value - mean - slope * (index - middle)) ** 2);
  const scatter = Math.sqrt(off.reduce((sum, one) => sum + one, 0) / count);
  const growth = slope * (count - 1);
  return { growth, mean, isBeyondNoise: growth > Math.max(mean / 20, least, 2 * scatter) };
}

/** Opens and closes all models again and again in this process. @returns what it has resident after each time */
async function openAndClose(directory: string): Promise<Series> {
  const values: number[] = [];
  for (let time = 0; time < OPENINGS; time++) {
    const repository = await openRepository({
      ...{ directory, defaultModel: undefined, maxBatchRows: 64, maxBatchElements: 4096, providers: ['cpu'] },
      ...{ allowProviderFallback: false, warn: () => {}, inform: () => {} },
    });
    await repository.close();
    values.push(process.memoryUsage.rss() / MIB);
  }
  return { name: `resident memory, MiB, of ${OPENINGS} times opening and closing`, least: 48, values };
}

const [WIDTH, HEIGHT, LEFT] = [640, 120, 60];

/** Charts below each other, each from its least to its largest value. */
function svgOf(charts: readonly { readonly title: string; readonly series: Series }[]): string {
  const drawn = charts.map(({ title, series: { name, values } }, index) => {
    const [min, max] = [Math.min(...values), Math.max(...values)];
    const y = (value: number): number => HEIGHT - 20 - ((value - min) / (max - min || 1)) * (HEIGHT - 50);
    const points = values.map((value, at) => `${LEFT + (at / values.length) * (WIDTH - LEFT)},${y(value).toFixed(1)}`);
    return `<g transform="translate(0 ${index * HEIGHT})"><text x="${LEFT}" y="18" font-weight="bold">${title}: ${name}</text>
<text x="${LEFT - 6}" y="${y(max) + 4}" text-anchor="end">${max.toFixed(0)}</text><text x="${LEFT - 6}" y="${y(min) + 4}" text-anchor="end">${min.toFixed(0)}</text>
<polyline points="${points.join(' ')}" fill="none" stroke="#1f77b4"/></g>`;
  });
  const size = `viewBox="0 0 ${WIDTH + 10} ${charts.length * HEIGHT}" width="${WIDTH + 10}" height="${charts.length * HEIGHT}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>
${drawn.join('\n')}
</svg>
`;
}

const MAX_MINUTES = 600;
const MAX_RATE = 10_000;

const main: Main = async (args) => {
  if (asksForHelp(args)) {
    console.log(USAGE);
    return 0;
  }
  const text = { type: 'string' } as const;
  const values = parseOptions(args, { minutes: text, rate: text, svg: text, json: { type: 'boolean' } });
  const minutes = Number(values.minutes ?? 2);
  if (!(minutes > 0 && minutes <= MAX_MINUTES))
    throw new UsageError(`--minutes: expected a number above 0, at most ${MAX_MINUTES}, got '${values.minutes}'`);
  const rate = wholeNumber('--rate', values.rate ?? '50', 1, MAX_RATE);

  const models = await mkdtemp(join(tmpdir(), 'batchscore-soak-'));
  await putModels(models);
  const opening = await openAndClose(models);
  const sqs = await startStrictSqs();
  const hosts = await Promise.all(['function', 'worker'].map((title) => soak(title, sqs, models)));
  const endsAt = performance.now() + 60_000 * minutes;
  while (performance.now() < endsAt) {
    for (const host of hosts) host.send(rate);
    await sleep(1000);
    for (const host of hosts) await host.sample();
  }
  const ended = hosts.flatMap(({ title, fleet }) =>
    Object.entries(fleet.ends).map((how) => `${title}: ${how.join(' ')}`),
  );
  await Promise.all(hosts.map(({ fleet }) => fleet.stop()));
  for (const host of hosts) await host.sample().catch(() => {});
  await sqs.stop();
  await rm(models, { recursive: true });

  const charts = [
    ...hosts.flatMap(({ title, series }) => Object.values(series).map((one) => ({ title, series: one }))),
    { title: 'models', series: opening },
  ];
  await writeFile(values.svg ?? 'soak.svg', svgOf(charts));
  const slopes = charts.map(({ title, series }) => ({ of: `${title}: ${series.name}`, ...slopeOf(series) }));
  const counts = Object.fromEntries(hosts.map(({ title, counts }) => [title, counts()]));
  if (values.json) console.log(JSON.stringify({ minutes, rate, counts, slopes }, undefined, 2));
  else {
    for (const { of, mean, growth, isBeyondNoise } of slopes) {
      console.log(
        `${of.padEnd(64)} ${mean.toFixed(1).padStart(8)} ${growth.toFixed(1).padStart(8)}${isBeyondNoise ? '  GROWS' : ''}`,
      );
    }
    console.log(`${JSON.stringify(counts)}; drawn to ${values.svg ?? 'soak.svg'}`);
  }
  // Another took its place, with its memory still to fill.
  if (ended.length > 0) console.error(`expected hosts that live, got ends: ${ended.join(', ')}`);
  const isUnanswered = hosts.some(({ counts }) => counts().answered < counts().sent);
  return isUnanswered || ended.length > 0 || slopes.some(({ isBeyondNoise }) => isBeyondNoise) ? 1 : 0;
};

await runCommand(main);
