import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { MessageRecord } from '../../../lambda/core/record.ts';

/** Why the page sent a message: somebody asked, or as load. */
export type Purpose = 'ask' | 'load';

/** What marks a message that the page sent, so that its result goes to the page and not to whoever receives results. */
const ATTRIBUTE = 'batchscore-page';

export function ownAttributes(purpose: Purpose): Record<string, MessageAttributeValue> {
  return { [ATTRIBUTE]: { DataType: 'String', StringValue: purpose } };
}

/** Undefined for everybody else's messages. */
export function purposeOf({ messageAttributes }: MessageRecord): Purpose | undefined {
  const purpose = messageAttributes[ATTRIBUTE]?.stringValue;
  return purpose === 'ask' || purpose === 'load' ? purpose : undefined;
}
