/** An environment of Managed Instances in small: the entry runs in a worker thread, and the process outlives it. */
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

const worker = new Worker(fileURLToPath(new URL('./handlerEnvironment.ts', import.meta.url)));
worker.on('message', (message) => process.send?.(message));
worker.on('exit', (code) => console.error(`the thread ended alone, with code ${code}`));
process.on('message', (message) => worker.postMessage(message));
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
