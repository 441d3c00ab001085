import { createRequire, registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';
import type { Jest, JestEnvironment } from '@jest/environment';
import type { JestExpect } from '@jest/expect';
import type { Config, Global } from '@jest/types';

/**
 * Jest's runtime by Node's own module loader, in place of `jest-runtime`'s linker on `vm` contexts.
 *
 * The product, its packages and Node's modules are loaded once a worker, and shared by the test files that it runs:
 * module state that outlives a test file is seen by the next. Modules below `test/` are loaded anew for each test file,
 * so that the hooks and the state of a helper are that file's. `@jest/globals` is this module.
 * Mocking of modules, transforms and coverage are left out.
 */
export default class NodeRuntime {
  constructor(config: Config.ProjectConfig, environment: JestEnvironment) {
    Reflect.deleteProperty(globalThis, TEST_TIMEOUT);
    testFiles += 1;
    testsFolder = `${pathToFileURL(config.rootDir).href}/test/`;
    jestObject = jestOf(environment);
  }

  /** Jest's own framework: anew for each file, since its state is its module's. */
  requireInternalModule(path: string): unknown {
    delete require.cache[path];
    Reflect.deleteProperty(globalThis, EVENT_HANDLERS);
    return require(path);
  }

  requireModule(path: string): unknown {
    return require(path);
  }

  setGlobalsForRuntime(given: Globals): void {
    globals = given;
  }

  unstable_shouldLoadAsEsm(): boolean {
    return true;
  }

  unstable_importModule(path: string): Promise<unknown> {
    return import(pathToFileURL(path).href);
  }

  enterTestCode(): void {}
  leaveTestCode(): void {}
  teardown(): void {}

  getSourceMaps(): Map<string, string> {
    return new Map();
  }

  getAllCoverageInfoCopy(): undefined {
    return undefined;
  }

  collectV8Coverage(): never {
    throw new Error('expected a run without --coverage, got one with it; set NODE_V8_COVERAGE to a folder instead');
  }
}

type Globals = Global.TestFrameworkGlobals & { readonly expect: JestExpect };

const require = createRequire(import.meta.url);
const EVENT_HANDLERS = Symbol.for('EVENT_HANDLERS');
const RUNNER = new URL('.', import.meta.url).href;
const TEST_TIMEOUT = Symbol.for('TEST_TIMEOUT_SYMBOL');

let globals: Globals | undefined;
let jestObject: Partial<Jest> | undefined;
let testsFolder = '';
let testFiles = 0;

registerHooks({
  resolve(specifier, context, next) {
    if (specifier === '@jest/globals') return { url: import.meta.url, shortCircuit: true };
    const found = next(specifier, context);
    const isOfThisFile = testsFolder !== '' && found.url.startsWith(testsFolder) && !found.url.startsWith(RUNNER);
    return isOfThisFile ? { ...found, url: `${found.url}?file=${testFiles}` } : found;
  },
});

export const describe = live('describe');
export const it = live('it');
export const test = live('test');
export const expect = live('expect');
export const beforeAll = live('beforeAll');
export const beforeEach = live('beforeEach');
export const afterEach = live('afterEach');
export const afterAll = live('afterAll');

/** What the tests use of Jest's own object. */
export const jest: Partial<Jest> = new Proxy({}, { get: (_target, key) => Reflect.get(jestObject ?? {}, key) });

/** One of the globals of the test file that runs now: this module is loaded once, for all of them. */
function live<Name extends keyof Globals>(name: Name): Globals[Name] {
  const ofThisFile = (): Globals[Name] => {
    if (globals === undefined) throw new Error(`expected ${name} to be used in a test file that Jest runs`);
    return globals[name];
  };
  return new Proxy((() => {}) as unknown as Globals[Name], {
    apply: (_target, self, parameters) => Reflect.apply(ofThisFile(), self, parameters),
    get: (_target, key) => Reflect.get(ofThisFile(), key),
  });
}

function jestOf({ moduleMocker, fakeTimersModern: timers, global }: JestEnvironment): Partial<Jest> {
  if (moduleMocker === null || timers === null) throw new Error('expected the environment of environment.ts');
  const own: Partial<Jest> = {
    fn: moduleMocker.fn.bind(moduleMocker),
    spyOn: moduleMocker.spyOn.bind(moduleMocker),
    restoreAllMocks: () => {
      moduleMocker.restoreAllMocks();
      return own as Jest;
    },
    setTimeout: (milliseconds) => {
      Reflect.set(global, TEST_TIMEOUT, milliseconds);
      return own as Jest;
    },
    useFakeTimers: (config) => {
      timers.useFakeTimers({ ...config, legacyFakeTimers: false });
      return own as Jest;
    },
    useRealTimers: () => {
      timers.useRealTimers();
      return own as Jest;
    },
    advanceTimersByTime: (milliseconds) => timers.advanceTimersByTime(milliseconds),
    advanceTimersByTimeAsync: (milliseconds) => timers.advanceTimersByTimeAsync(milliseconds),
    getTimerCount: () => timers.getTimerCount(),
  };
  return own;
}
