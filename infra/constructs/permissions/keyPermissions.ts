import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Channels } from '../storage/channels.ts';
import { isKeyUnknown } from '../storage/known.ts';
import type { RequestQueues } from '../storage/requestQueue.ts';

/** Keys that are not known from what they encrypt. */
export interface Keys {
  readonly encryptionKey?: IKey | undefined;
  /** What was `encryptionKey` before: messages and objects from then are still encrypted with it. */
  readonly formerEncryptionKey?: IKey | undefined;
}

/** What scoring needs of them: the function's environment is encrypted too. */
export function grantKeysToHost(grantee: IGrantable, keys: Keys, channels: Channels): void {
  const { requestQueues, stores, payloadBucket } = channels;
  keys.encryptionKey?.grantDecrypt(grantee);
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...requestQueues, ...Object.values(stores), payloadBucket].some(isKeyUnknown)) {
    keys.encryptionKey?.grantEncryptDecrypt(grantee);
  }
}

/** What a producer needs of them. */
export function grantKeysToProducer(grantee: IGrantable, { encryptionKey }: Keys, channels: Channels): void {
  const { requestQueues, payloadBucket } = channels;
  if ([...requestQueues, payloadBucket].some(isKeyUnknown)) encryptionKey?.grantEncryptDecrypt(grantee);
}

/** What a consumer needs of them. */
export function grantKeysToConsumer(grantee: IGrantable, keys: Keys, { stores, payloadBucket }: Channels): void {
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...Object.values(stores), payloadBucket].some(isKeyUnknown)) keys.encryptionKey?.grantDecrypt(grantee);
}

/** What an operator needs of them, to send dead letters back. */
export function grantKeysToOperator(grantee: IGrantable, keys: Keys, requests: RequestQueues): void {
  const { queues, deadLetterQueue } = requests;
  if (deadLetterQueue === undefined) return;
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...queues, deadLetterQueue].some(isKeyUnknown)) {
    keys.encryptionKey?.grant(grantee, 'kms:Decrypt', 'kms:GenerateDataKey');
  }
}
