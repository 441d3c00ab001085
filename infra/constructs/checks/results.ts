import { FILL, outside, RANGES, type ResultsPerMessage, STORES } from '../../../lambda/core/limits.ts';
import type { Problem } from '../base/refuse.ts';
import type { ResultStore } from '../storage/resultStores.ts';

export interface ResultSettings {
  readonly results: readonly ResultStore[];
  readonly resultsPerMessage: ResultsPerMessage;
  readonly resultMessageBytes: number;
  readonly resultTtlSeconds: number;
}

/** Where results go, and how long they stay there. */
export function resultProblems(settings: ResultSettings): Problem[] {
  const { results, resultTtlSeconds } = settings;
  return [
    notSomeStores(results),
    ...packingProblems(settings),
    outside('resultTtlSeconds', resultTtlSeconds, RANGES.resultTtlSeconds),
  ];
}

function notSomeStores(results: readonly ResultStore[]): Problem {
  const known = results.every((store) => STORES.includes(store));
  if (known && results.length > 0 && new Set(results).size === results.length) return undefined;
  const got = results.length > 0 ? results.join(',') : 'none';
  return `results: expected one or more of ${STORES.join(', ')}, each once, got ${got}; name where results should go`;
}

function packingProblems({ results, resultsPerMessage, resultMessageBytes }: ResultSettings): Problem[] {
  return [
    resultsPerMessage === FILL ? undefined : notSomeResults(resultsPerMessage),
    outside('resultMessageBytes', resultMessageBytes, RANGES.resultMessageBytes),
    resultsPerMessage !== 1 && !results.includes('queue')
      ? `resultsPerMessage: expected queue among the results, whose messages they share, got ${results.join(',')}; ` +
        'add queue or leave it out'
      : undefined,
    resultsPerMessage === 1 && resultMessageBytes !== RANGES.resultMessageBytes.default
      ? `resultMessageBytes: expected it with resultsPerMessage above 1, as it is the size of a message of several results, ` +
        `got ${resultMessageBytes} with 1; set resultsPerMessage to ${FILL} or leave it out`
      : undefined,
  ];
}

function notSomeResults(resultsPerMessage: number): Problem {
  const { least, most } = RANGES.resultsPerMessage;
  if (outside('resultsPerMessage', resultsPerMessage, RANGES.resultsPerMessage) === undefined) return undefined;
  return (
    `resultsPerMessage: expected a whole number from ${least} to ${most}, or ${FILL}, got ${resultsPerMessage}; ` +
    'choose one of these'
  );
}
