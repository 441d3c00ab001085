import { S3 } from '@aws-sdk/client-s3';
import { consumeResults } from 'batchscore/consumer';

/** Prints what became of each request. To act on it once, note `messageId` and `position`: a result may come again. */
export const handler = consumeResults(
  (result, { position }) => {
    const label = 'outputs' in result ? String(result.outputs.label?.data[0]) : undefined;
    const code = 'error' in result ? result.error.code : undefined;
    console.log(JSON.stringify({ messageId: result.messageId, position, id: result.id, label, code }));
  },
  { s3: new S3(), payloadBucket: process.env.PAYLOAD_BUCKET },
);
