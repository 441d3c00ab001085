// Loaded into a host by `--import`: once a second it prints how late its timers were, in milliseconds, for `testSoak.ts`.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const isHost = /(worker|handlerEnvironment)\.ts$/.test(process.argv[1] ?? '');
if (isMainThread && isHost) {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const print = () => {
    console.log(`{"soak":${(delay.percentile(99) / 1e6).toFixed(1)}}`);
    delay.reset();
  };
  setInterval(print, 1000).unref();
}
