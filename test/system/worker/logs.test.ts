import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { deployment } from '../../helpers/hosts.ts';

const server = useSqsServer();

/** What the worker prints of why it cannot start, line by line. */
async function refusalWith(environment: Readonly<Record<string, string>>): Promise<string[]> {
  const { start } = await deployment(server, { environment: { BATCHSCORE_SERVICE_NAME: 'mine', ...environment } });
  const worker = start();
  expect(await worker.ended).toEqual({ code: 1, signal: null });
  return worker.printed().split('\n');
}

describe('the log of the worker', () => {
  it.each<[what: string, environment: Readonly<Record<string, string>>, problem: RegExp]>([
    ['a variable', { BATCHSCORE_BATCH_SIZE: 'x' }, /^configuration: BATCHSCORE_BATCH_SIZE: /],
    ['the models', { BATCHSCORE_MODELS_DIR: '/nowhere' }, /^\/nowhere: expected a folder of the model repository/],
    ['no time to score', { BATCHSCORE_TIMEOUT_SECONDS: '1' }, /^configuration: BATCHSCORE_TIMEOUT_SECONDS: /],
  ])('says in one line of JSON why the worker cannot start: %s', async (_, environment, problem) => {
    const lines = await refusalWith(environment);

    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] as string)).toMatchObject({
      level: 'CRITICAL',
      service: 'mine',
      message: 'the worker cannot start',
      error: { message: expect.stringMatching(problem) },
    });
  });
});
