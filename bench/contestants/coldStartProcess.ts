/** Runs as a process: a function's start, from its first line until it can be invoked. */
import { Agent } from 'node:https';
import { S3Client } from '@aws-sdk/client-s3';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import type { ColdStart } from '../coldStartBench.ts';
import { answerParent } from '../harness/child.ts';

const { [CONFIG_KEYS.modelsUri]: uri, ONE_CONNECTION: oneConnection } = process.env;
if (uri !== undefined && oneConnection !== undefined) {
  // What the handler would do, one part after the other.
  const { fetchModels } = await import('../../lambda/aws/fetchModels.ts');
  const s3 = new S3Client({ requestHandler: { httpsAgent: new Agent({ keepAlive: true, maxSockets: 1 }) } });
  process.env[CONFIG_KEYS.modelsDirectory] = await fetchModels({ s3, uri });
  delete process.env[CONFIG_KEYS.modelsUri];
}
await import(process.env.ENTRY ?? '');

const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
const start: ColdStart = {
  seconds: performance.now() / 1000,
  cpuSeconds: (userCPUTime + systemCPUTime) / 1e6,
  peakRssBytes: maxRSS * 1024,
};
answerParent(() => start);
