import type { Whereabouts } from './local/localServices.ts';
import type { LocalStack } from './local/localStack.ts';

interface Ready extends Pick<Whereabouts, 'queues' | 'page'> {
  readonly models: LocalStack['models'];
  readonly batchSize: number;
  readonly windowSeconds: number;
}

/** What a person wants to know of the local stack once it is up. */
export function greeting({ models, queues, page, batchSize, windowSeconds }: Ready): string {
  const names = models.map(({ name, version }) => `${name}/${version}`).join(', ');
  return [
    `ready for ${names}; Ctrl-C stops`,
    ...(page === undefined ? [] : [`  look   ${page} in a browser`]),
    `  send   to ${queues.endpoint}, with any SQS client and any credentials`,
    '         npx batchscore submit FILE --stack stack.json: the line above, in a file',
    `  batch  up to ${batchSize} messages, or those of ${windowSeconds} s`,
  ].join('\n');
}
