import { describe, expect, it } from '@jest/globals';
import { isCallersFault, outageKind } from '../../../lambda/aws/awsError.ts';
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
    // The SDK has set its clock by the refusal.
    ['RequestTimeTooSkewed', 'client'],
  ] as const)('%s: it is busy', (name, fault) => {
    expect(outageKind(sqsError(name, fault))).toBe('busy');
  });

  it.each(['Signature expired: 20261124T000000Z is now earlier than', 'Signature not yet current: 20261124T000000Z'])(
    '%s: its clock is another, which the SDK knows by now',
    (message) => {
      const error = Object.assign(sqsError('InvalidSignatureException', 'client'), { message });
      expect([isCallersFault(error), outageKind(error)]).toEqual([false, 'busy']);
    },
  );

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
