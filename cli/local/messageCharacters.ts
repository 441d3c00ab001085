import { INVALID_MESSAGE_BODY_CHAR } from '../../node_modules/fauxqs/dist/sqs/sqsTypes.js';

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html */
const REFUSED_BY_SQS = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u;

/** Has fauxqs take what SQS takes: its own expression refuses the characters beyond U+FFFF, emoji among them. */
export function takeEveryCharacterOfSqs(): void {
  INVALID_MESSAGE_BODY_CHAR.test = (text) => REFUSED_BY_SQS.test(text);
}
