import { fileURLToPath } from 'node:url';

// Hundreds of processes start from the same sources: compiled once, a start takes a third of the time.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('node_modules/.cache/compiled', import.meta.url));

// ONNX Runtime would send what tests open. Workers get this environment.
process.env.ORT_DISABLE_TELEMETRY = '1';

// Node 24 strips the types itself and loads every module, so there is no transform: see test/runner/runtime.ts.
export default {
  transform: {},
  testEnvironment: './test/runner/environment.ts',
  runtime: './test/runner/runtime.ts',
  injectGlobals: false,
  testMatch: ['**/test/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '/dist/', '/cdk.out/'],
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/cdk.out/'],
  reporters: ['default', './test/helpers/summaryReporter.ts'],
  // Half of the tests wait for processes and servers. A worker keeps what its test files loaded until it is renewed.
  maxWorkers: 2,
  workerIdleMemoryLimit: '1GB',
  testTimeout: 60_000,
};
