import { afterEach, beforeEach, jest } from '@jest/globals';

/** The warnings that each test of a file has had the process emit. Within jest none reaches the process's listeners. */
export function useWarnings(): readonly string[] {
  const warnings: string[] = [];
  beforeEach(() => {
    jest.spyOn(process, 'emitWarning').mockImplementation((message) => void warnings.push(String(message)));
  });
  afterEach(() => {
    jest.restoreAllMocks();
    warnings.length = 0;
  });
  return warnings;
}
