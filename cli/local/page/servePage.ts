import { type Batching, type LocalStack, type LocalStackOptions, startLocalStack } from '../stack.ts';
import { alsoTell } from './alsoTell.ts';
import { createMonitor } from './monitor.ts';
import { startPage } from './page.ts';

export interface ServePageOptions extends Omit<LocalStackOptions, 'watch'> {
  readonly batching: Batching;
  /** Of the page, on 127.0.0.1. @default the one after `port`, or any where that is taken */
  readonly pagePort?: number | undefined;
}

export interface ServedPage {
  readonly stack: LocalStack;
  /** URL of the page. */
  readonly page: string;
  /** Finishes what was received, runs of models included. */
  stop(): Promise<void>;
}

/** Starts the local stack, hands messages to its function, and serves the page that shows it. */
export async function servePage({ batching, pagePort, ...options }: ServePageOptions): Promise<ServedPage> {
  const monitor = createMonitor();
  const telemetry = alsoTell(options.telemetry, monitor.telemetry);
  const stack = await startLocalStack({ ...options, telemetry, watch: monitor.watch });
  const mapping = stack.startMapping(batching);
  const stop = async (): Promise<void> => {
    await mapping.stop();
    await stack.stop();
  };
  try {
    const { modelsDirectory, warn } = options;
    const page = await startPage({ stack, mapping, monitor, batching, modelsDirectory, port: pagePort, warn });
    return {
      stack,
      page: page.url,
      async stop() {
        await page.close();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
