import { describe, expect, it } from '@jest/globals';
import { type Finished, runScript } from '../../helpers/command.ts';
import { useDeployments } from '../../helpers/deployment.ts';

const deployments = useDeployments();
const CREDENTIALS = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
const NO_PROFILE = { AWS_CONFIG_FILE: '/dev/null', AWS_SHARED_CREDENTIALS_FILE: '/dev/null' };
const NO_REGION = 'expected an AWS region, got none; set region, AWS_REGION, or the region of the AWS profile';

function runProducer(command: string, urls: readonly string[], region: string): Promise<Finished> {
  const env = { ...CREDENTIALS, ...NO_PROFILE, AWS_REGION: region };
  return runScript('test/system/client/producerProcess.ts', [command, ...urls], { env });
}

describe('a process that leaves the AWS clients to Batchscore', () => {
  it.each(['submit', 'score'])(
    'prints nothing on stderr: %s, from queues that are not of its region',
    async (command) => {
      const { answer, requestQueueUrl, resultQueueUrl } = await deployments.create('queue');
      const running = runProducer(command, [requestQueueUrl, resultQueueUrl], 'eu-central-1');
      await answer(1);
      expect(await running).toEqual({ code: 0, stdout: '{"0":3}', stderr: '' });
    },
  );

  it.each(['submit', 'collect', 'score'])('is told at once what to set when it has no region: %s', async (command) => {
    const urls = ['http://127.0.0.1:1/000000000000/requests', 'http://127.0.0.1:1/000000000000/results'];
    const { stdout, stderr } = await runProducer(command, urls, '');
    expect({ stdout: JSON.parse(stdout), stderr }).toEqual({ stdout: `Error: ${NO_REGION}`, stderr: '' });
  });
});
