import { fileURLToPath } from 'node:url';
import { behindQueue } from './peers/batchscore.ts';
import { type Contestant, overHttp, python } from './serving.ts';

const PLAIN = fileURLToPath(new URL('peers/plain.ts', import.meta.url));

export const CONTESTANTS: readonly Contestant[] = [
  { name: 'batchscore, function', packages: [], packs: true, start: behindQueue('function') },
  { name: 'batchscore, worker', packages: [], packs: true, start: behindQueue('worker') },
  {
    name: 'plain HTTP',
    packages: [],
    start: overHttp([process.execPath, PLAIN]),
  },
  python('mosec', ['mosec==0.9.8', 'msgspec==0.20.0'], { path: '/inference' }),
  {
    ...python('mosec', ['mosec==0.9.8', 'msgspec==0.20.0'], { path: '/inference', environment: { FIELD_STAGES: '2' } }),
    name: 'mosec, two stages',
  },
  python('litserve', ['litserve==0.2.19'], { path: '/predict' }),
  python('ray', ['ray[serve]==2.60.0']),
  python('triton', ['nvidia-pytriton==0.7.0'], { path: '/v2/models/model/infer' }),
];
