/**
 * Scores a hundred messages of a model that runs each alone in a quarantine whose writes take a while. Prints how many were
 * answered, and how many writes were under way at most. With `lost` the host does not find its model, and has two seconds.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { loadConfig } from '../../../lambda/hosts/config.ts';
import { createQuarantine } from '../../../lambda/hosts/quarantine.ts';
import { openRepository } from '../../../lambda/onnx/repository.ts';
import { scoringDependencies } from '../../helpers/scoring.ts';

const isLost = process.argv[2] === 'lost';
const config = loadConfig(process.env);
const directory = config.modelsDirectory;
const { observer, batching } = scoringDependencies();
const warn = (): void => {};
const found = await openRepository({ ...config, directory, warn });
const models = isLost ? { ...found, find: () => new Promise<never>(() => {}) } : found;
const quarantine = createQuarantine({ config, directory, models, names: [], batching, observer, warn, onLost: warn });

const timeMs = isLost ? 2_000 : 50_000;
const endsAt = performance.now() + timeMs;
const time = { remainingMs: () => endsAt - performance.now(), signal: AbortSignal.timeout(timeMs) };
const request = { inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [1] }] };
const bodies = Array.from({ length: 100 }, (_, index) => ({ key: `${index}`, body: JSON.stringify(request) }));
let [answered, writing, atOnce] = [0, 0, 0];
const sink = async (replies: readonly unknown[]): Promise<void> => {
  writing += 1;
  atOnce = Math.max(atOnce, writing);
  await pause(30);
  answered += replies.length;
  writing -= 1;
};
const awake = setInterval(() => {}, 1_000);
await quarantine.score(bodies, time, sink, async () => {});
clearInterval(awake);
console.log(JSON.stringify({ answered, atOnce }));
