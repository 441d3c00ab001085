import { fileURLToPath } from 'node:url';

// Hundreds of processes start from the same sources: compiled once, a start takes a third of the time.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('node_modules/.cache/compiled', import.meta.url));

// ONNX Runtime would send what tests open. Workers get this environment.
process.env.ORT_DISABLE_TELEMETRY = '1';

// `npm test` runs all of them but `system`, which `npm run test:system` runs: see CONTRIBUTING.md.
const SUITES = ['guarantees', 'unit', 'contract', 'cdk', 'system'];

export default {
  // Node 24 strips the types itself and loads every module, so there is no transform: see test/runner/runtime.ts.
  projects: SUITES.map((suite) => ({
    displayName: suite,
    testMatch: [`<rootDir>/test/${suite}/**/*.test.ts`],
    transform: {},
    testEnvironment: './test/runner/environment.ts',
    runtime: './test/runner/runtime.ts',
    injectGlobals: false,
    modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/cdk.out/'],
  })),
  testSequencer: './test/runner/sequencer.js',
  reporters: ['default', './test/runner/summaryReporter.ts'],
  // Half of the time is waiting. A worker keeps what its test files loaded until it is renewed.
  maxWorkers: 4,
  workerIdleMemoryLimit: '1GB',
  // Worker threads and native code take longer to end on a busy machine than Jest's 500 ms.
  workerGracefulExitTimeout: 10_000,
  testTimeout: 60_000,
};
