import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Problem } from '../base/refuse.ts';
import { keyOf } from '../storage/known.ts';
import { MESSAGE_ID_KEY, type ResultStore, type ResultStores } from '../storage/resultStores.ts';

interface GivenStores {
  readonly results: readonly ResultStore[];
  readonly stores: ResultStores;
  readonly requestQueue: IQueue | undefined;
  readonly deadLetterQueue: IQueue | undefined;
}

/** Existing stores must be named by `results`, and fit for them as far as the CDK knows. */
export function storeProblems({ results, stores, requestQueue, deadLetterQueue }: GivenStores): Problem[] {
  const { resultQueue, resultTable, resultBucket } = stores;
  return [
    resultQueue && notNamed('resultQueue', 'queue', results),
    resultTable && notNamed('resultTable', 'table', results),
    resultBucket && notNamed('resultBucket', 'bucket', results),
    sameQueue(resultQueue, requestQueue, 'request queue', 'results would be scored as requests'),
    sameQueue(resultQueue, deadLetterQueue, 'dead-letter queue', 'dead letters would be collected as results'),
    otherKey(keyOf(resultTable)),
  ];
}

function notNamed(name: string, store: ResultStore, results: readonly ResultStore[]): Problem {
  if (results.includes(store)) return undefined;
  return (
    `stores.${name}: expected ${store} among the results where one is given, got ${results.join(',')}; ` +
    `add ${store} or leave out ${name}`
  );
}

function sameQueue(resultQueue: IQueue | undefined, other: IQueue | undefined, role: string, why: string): Problem {
  if (resultQueue === undefined || resultQueue.queueArn !== other?.queueArn) return undefined;
  return `stores.resultQueue: expected another queue than the ${role}, because ${why}, got the same; give one of its own`;
}

function otherKey(key: readonly string[] | undefined): Problem {
  const expected = `${MESSAGE_ID_KEY} (S)`;
  if (key === undefined || key.join() === expected) return undefined;
  return (
    `stores.resultTable: expected the partition key ${expected} and no sort key, got ${key.join(' and ')}; ` +
    'give a table with that key'
  );
}
