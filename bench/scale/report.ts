import { table } from '../report/markdownTable.ts';
import { ceilingsOf, count } from './ceilings.ts';
import { brokenBy, type Outcome } from './outcome.ts';
import { fullBatch, messageBytes, runMs, type Scenario } from './scenario.ts';

/** Everything that was found, as Markdown. */
export function renderScale(
  scenario: Scenario,
  { rates, inTime, advised }: { rates: readonly Outcome[]; inTime: Outcome; advised: ReadonlyMap<number, Outcome[]> },
): string {
  const sections = [
    describe(scenario),
    `## What breaks first\n\n${ceilingTable(scenario)}`,
    `## Rates\n\nAfter ${inTime.last.endSeconds} s. Latency is from send to answer, those of the last ten seconds.\n\n${rateTable(rates)}`,
    `## ${count(inTime.scenario.requestsPerSecond)} requests a second, in time\n\n${timeTable(inTime)}`,
    `## Settings that hold\n\n${advisedTable(advised, scenario)}`,
  ];
  return `${sections.join('\n\n')}\n`;
}

function describe(scenario: Scenario): string {
  const { requestsPerMessage, shards, batchSize, windowSeconds, fifo, accountConcurrency, coldMs } = scenario;
  const messages = fullBatch(scenario);
  return (
    `${fifo ? 'FIFO' : 'Standard'} queues: ${shards}. ${requestsPerMessage} to a message of ${count(messageBytes(scenario))} ` +
    `bytes, batch size ${count(batchSize)}, window ${windowSeconds} s. A full batch has ${count(messages)} messages and takes ` +
    `${runMs(scenario, messages).toFixed(1)} ms, ${count(coldMs)} ms more in a new environment. The account has ` +
    `${count(accountConcurrency)} concurrent invocations. What AWS documents is in bench/scale/rules.ts, what is assumed ` +
    'in bench/scale/simulate.ts.'
  );
}

function ceilingTable(scenario: Scenario): string {
  return table(
    ['limit', 'requests/s', 'arithmetic'],
    ceilingsOf(scenario).map(({ limit, most, sum }) => [limit, count(most), sum]),
  );
}

function rateTable(outcomes: readonly Outcome[]): string {
  return table(
    ['requests/s', 'holds', 'caught up after', 'p50', 'p99', 'waiting', 'in flight', 'invocations', 'batch', '$/hour'],
    outcomes.map((outcome) => [
      count(outcome.scenario.requestsPerSecond),
      outcome.holds ? 'yes' : `no: ${brokenBy(outcome)}`,
      caughtUp(outcome),
      seconds(outcome.last.p50Ms),
      seconds(outcome.last.p99Ms),
      count(outcome.last.waiting),
      count(outcome.last.inFlight),
      count(outcome.last.running),
      outcome.last.batch.toFixed(0),
      dollars(outcome),
    ]),
  );
}

const ROWS = 15;

function timeTable({ stretches, scenario }: Outcome): string {
  const every = Math.ceil(stretches.length / ROWS);
  const shown = stretches.filter((_, index) => index < 3 || (index + 1) % every === 0);
  return table(
    ['at', 'answered/s', 'p50', 'p99', 'waiting', 'in flight', 'invocations', 'mappings', 'held back by'],
    shown.map((stretch) => {
      const lasted = stretches[0]?.endSeconds ?? 1;
      return [
        `${stretch.endSeconds} s`,
        count((stretch.answered / lasted) * scenario.requestsPerMessage),
        seconds(stretch.p50Ms),
        seconds(stretch.p99Ms),
        count(stretch.waiting),
        count(stretch.inFlight),
        count(stretch.running),
        count(stretch.mapping),
        stretch.heldBackBy ?? '',
      ];
    }),
  );
}

function advisedTable(advised: ReadonlyMap<number, readonly Outcome[]>, given: Scenario): string {
  const heads = [
    'requests/s',
    'to a message',
    'shards',
    'maximumConcurrency',
    "account's concurrency",
    'caught up after',
    'p50',
    'p99',
    '$/hour',
    'ask AWS for more of',
  ];
  const rows = Array.from(advised, ([rate, outcomes]) =>
    outcomes.length === 0
      ? [[count(rate), 'none with ten shards', ...Array(heads.length - 2).fill('')]]
      : outcomes.map((outcome) => adviceRow(outcome, given)),
  );
  return table(heads, rows.flat());
}

function adviceRow(outcome: Outcome, given: Scenario): string[] {
  const { requestsPerSecond, requestsPerMessage, shards, maximumConcurrency, accountConcurrency } = outcome.scenario;
  return [
    count(requestsPerSecond),
    count(requestsPerMessage),
    count(shards),
    count(maximumConcurrency ?? 0),
    count(accountConcurrency),
    caughtUp(outcome),
    seconds(outcome.last.p50Ms),
    seconds(outcome.last.p99Ms),
    dollars(outcome),
    quotasBelow(outcome.scenario, given),
  ];
}

/** What no setting of a deployment raises. */
function quotasBelow(scenario: Scenario, given: Scenario): string {
  const below = ceilingsOf(scenario).filter(({ most }) => most < scenario.requestsPerSecond);
  const concurrency = scenario.accountConcurrency > given.accountConcurrency ? ["the account's concurrency"] : [];
  return [...concurrency, ...below.map(({ limit }) => limit)].join(', ');
}

function caughtUp({ caughtUpSeconds }: Outcome): string {
  return caughtUpSeconds === undefined ? 'not yet' : `${caughtUpSeconds} s`;
}

function seconds(ms: number): string {
  return Number.isNaN(ms) ? '' : `${(ms / 1000).toFixed(2)} s`;
}

function dollars(outcome: Outcome): string {
  return outcome.dollarsPerHour.toFixed(2);
}
