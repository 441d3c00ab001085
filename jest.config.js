// Node 24 strips the types itself, so there is no transform.
export default {
  extensionsToTreatAsEsm: ['.ts'],
  transform: {},
  testEnvironment: './test/helpers/realmEnvironment.ts',
  testMatch: ['**/test/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '/dist/', '/cdk.out/'],
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/cdk.out/'],
  reporters: ['default', './test/helpers/summaryReporter.ts'],
  // Half of the tests wait for processes and servers; a worker lets go of the modules of its test files when it is renewed.
  maxWorkers: 2,
  workerIdleMemoryLimit: '1200MB',
  testTimeout: 60_000,
  coverageProvider: 'v8',
};
