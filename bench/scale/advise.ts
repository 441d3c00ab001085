import { MAXIMUM_CONCURRENCY, MESSAGES_IN_FLIGHT, SHARDS } from '../../lambda/core/limits.ts';
import { type Outcome, outcomeOf, type Span } from './outcome.ts';
import { FIFO_CALLS_PER_SECOND, MESSAGES_PER_RECEIVE } from './rules.ts';
import { fullBatch, messagesPerSecond, requestsThatFill, runMs, type Scenario } from './scenario.ts';

/** What is kept free of each ceiling: traffic comes unevenly, and some invocations take longer. */
const HEADROOM = 1.25;

/**
 * The settings that hold a traffic: the fewest shards, with the concurrency that they need, first with the messages as they
 * are, then with as many requests to a message as SQS bills as one. Each is simulated; where none holds with the most
 * shards there may be, there is none.
 */
export function settingsThatHold(scenario: Scenario, span: Span): Outcome[] {
  const packings = new Set([scenario.requestsPerMessage, requestsThatFill(scenario)]);
  return Array.from(packings, (requestsPerMessage) => fewestShards({ ...scenario, requestsPerMessage }, span)).filter(
    (outcome) => outcome !== undefined,
  );
}

function fewestShards(scenario: Scenario, span: Span): Outcome | undefined {
  for (let shards = SHARDS.least; shards <= SHARDS.most; shards++) {
    const settings = settingsOf({ ...scenario, shards });
    if (settings === undefined) continue;
    const outcome = outcomeOf(settings, span);
    if (outcome.holds) return outcome;
  }
  return undefined;
}

/** The concurrency that these shards need, by Little's law; undefined where a mapping or a queue does not reach that far. */
function settingsOf(scenario: Scenario): Scenario | undefined {
  const { shards, fifo, groups, accountConcurrency } = scenario;
  const messages = fullBatch(scenario);
  const perSecond = (HEADROOM * messagesPerSecond(scenario)) / shards;
  const needed = Math.max(
    MAXIMUM_CONCURRENCY.least,
    Math.ceil((perSecond * runMs(scenario, messages)) / 1000 / messages),
  );
  const isWithin =
    needed <= MAXIMUM_CONCURRENCY.most &&
    needed * messages <= MESSAGES_IN_FLIGHT &&
    (!fifo || (perSecond <= FIFO_CALLS_PER_SECOND * MESSAGES_PER_RECEIVE && shards * needed <= groups));
  if (!isWithin) return undefined;
  return {
    ...scenario,
    maximumConcurrency: shards * needed,
    maximumPollers: undefined,
    accountConcurrency: Math.max(accountConcurrency, shards * needed),
  };
}
