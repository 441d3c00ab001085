import { PutObjectCommand, type PutObjectCommandInput, type S3Client } from '@aws-sdk/client-s3';
import type { WriteVerdict } from '../core/record.ts';

import { describeError, isCallersFault, outageKind } from './awsError.ts';
import { ofAttempt } from './observedCalls.ts';
import { type Delivery, deliver } from './sendBatches.ts';

/** Puts one object, retried until S3 has it, refuses it for good, or there is no time left. */
export async function putObject(
  s3: S3Client,
  input: PutObjectCommandInput,
  { store, signal, retry }: Omit<Delivery<never>, 'attempt'>,
): Promise<WriteVerdict> {
  const attempt = async (_: unknown, number: number) => {
    try {
      await s3.send(ofAttempt(number, new PutObjectCommand(input)), { abortSignal: signal });
      return [];
    } catch (error) {
      const refusal = { reason: describeError(error), again: !isCallersFault(error), outage: outageKind(error) };
      return [{ entry: input, ...refusal }];
    }
  };
  const [verdict] = await deliver([input], { store, attempt, signal, retry });
  if (verdict === undefined) throw new Error('expected one verdict on one object');
  return verdict;
}
