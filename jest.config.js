import { fileURLToPath } from 'node:url';

// Hundreds of processes start from the same sources: compiled once, a start takes a third of the time.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('node_modules/.cache/compiled', import.meta.url));

// ONNX Runtime would send what tests open, and a test's own `process.env` is a copy.
process.env.ORT_DISABLE_TELEMETRY = '1';

// Node 24 strips the types itself, so there is no transform.
export default {
  extensionsToTreatAsEsm: ['.ts'],
  transform: {},
  testEnvironment: './test/helpers/realmEnvironment.ts',
  testMatch: ['**/test/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '/dist/', '/cdk.out/'],
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/cdk.out/'],
  reporters: ['default', './test/helpers/summaryReporter.ts'],
  // Half of the tests wait for processes and servers. A worker lets go of the modules of its test files when it is renewed:
  // with 1 GB of them, the garbage collector takes half of its time.
  maxWorkers: 2,
  workerIdleMemoryLimit: '400MB',
  testTimeout: 60_000,
  coverageProvider: 'v8',
};
