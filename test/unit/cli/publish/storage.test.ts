import { describe, expect, it } from '@jest/globals';
import { storageFor } from '../../../../cli/network/publishCommand.ts';

const MIB = 1024 * 1024;

describe('the ephemeral storage that models take', () => {
  it('is what every function has, as long as they fit with a spare twentieth and 64 MB', () => {
    expect(storageFor(0)).toEqual({ minMb: 512, advice: '' });
    expect(storageFor(426 * MIB)).toEqual({ minMb: 512, advice: '' });
  });

  it('is to be set where they do not', () => {
    expect(storageFor(427 * MIB)).toEqual({ minMb: 513, advice: 'ephemeralStorageSize to at least 513 MiB, ' });
    expect(storageFor(1024 * MIB)).toEqual({ minMb: 1140, advice: 'ephemeralStorageSize to at least 1140 MiB, ' });
  });

  it('may be more than there is', () => {
    expect(storageFor(10_000 * MIB).advice).toBe(
      'ephemeralStorageSize to at least 10564 MiB, which is more than the 10240 that Lambda has, ',
    );
  });
});
