import { describe, expect, it } from '@jest/globals';
import { outageKind } from '../../../lambda/aws/awsError.ts';
import { sqsError } from '../../helpers/awsServers.ts';

describe('what an error says of the service that it came from', () => {
  it.each([
    'QueueDoesNotExist',
    'AWS.SimpleQueueService.NonExistentQueue',
    'AccessDenied',
    'KmsDisabled',
    'KMSAccessDeniedException',
    'ResourceNotFoundException',
    'NoSuchBucket',
    'PermanentRedirect',
    'ExpiredTokenException',
    'UnrecognizedClientException',
    'SignatureDoesNotMatch',
  ])('%s: it is missing or denied', (name) => {
    expect(outageKind(sqsError(name, 'client'))).toBe('refused');
  });

  it.each([
    ['RequestThrottled', 'client'],
    ['ProvisionedThroughputExceededException', 'client'],
    ['ServiceUnavailable', 'server'],
  ] as const)('%s: it is busy', (name, fault) => {
    expect(outageKind(sqsError(name, fault))).toBe('busy');
  });

  it.each(['ECONNREFUSED', 'ENOTFOUND', 'ECONNRESET'])('%s: it does not answer', (code) => {
    expect(outageKind(Object.assign(new Error(code), { code }))).toBe('busy');
  });

  it.each(['InvalidParameterValue', 'InvalidMessageContents', 'BatchRequestTooLong', 'ValidationException'])(
    '%s: nothing, what was sent is at fault',
    (name) => {
      expect(outageKind(sqsError(name, 'client'))).toBeUndefined();
    },
  );

  it('nothing where it is a bug', () => {
    expect(outageKind(new TypeError('undefined is not a function'))).toBeUndefined();
    expect(outageKind('a text')).toBeUndefined();
  });
});
