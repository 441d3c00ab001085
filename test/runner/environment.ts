import type { EnvironmentContext, JestEnvironment, JestEnvironmentConfig } from '@jest/environment';
import { ModernFakeTimers } from '@jest/fake-timers';
import type { Global } from '@jest/types';
import { ModuleMocker } from 'jest-mock';

/**
 * The process itself as a test environment: no `vm` context, so a test file has the classes of Node's own modules,
 * worker threads and native code. What a file changes of the process is put back when it ends.
 */
export default class ProcessEnvironment implements JestEnvironment {
  readonly global = globalThis as typeof globalThis & Global.Global;
  readonly moduleMocker = new ModuleMocker(globalThis);
  readonly fakeTimers = null;
  readonly fakeTimersModern: ModernFakeTimers;
  // A copy in place of `process.env` would not reach the environment of the process, nor what reads it natively.
  readonly #processEnv = process.env;
  readonly #env = { ...process.env };
  readonly #exit = process.exit;
  readonly #exitCode = process.exitCode;
  readonly #console = globalThis.console;

  constructor({ projectConfig }: JestEnvironmentConfig, _context: EnvironmentContext) {
    this.fakeTimersModern = new ModernFakeTimers({ config: projectConfig, global: globalThis });
  }

  async setup(): Promise<void> {}

  async teardown(): Promise<void> {
    this.fakeTimersModern.dispose();
    this.moduleMocker.restoreAllMocks();
    process.env = this.#processEnv;
    for (const key of Object.keys(process.env)) if (!(key in this.#env)) delete process.env[key];
    Object.assign(process.env, this.#env);
    process.exit = this.#exit;
    process.exitCode = this.#exitCode;
    globalThis.console = this.#console;
  }

  getVmContext(): null {
    return null;
  }
}
