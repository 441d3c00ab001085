/** Fetches a published repository as a start of the function does: `node fetchProcess.ts URI DIRECTORY`. */
import { createS3Client } from '../../../../../lambda/aws/awsClients.ts';
import { fetchModels } from '../../../../../lambda/aws/fetchModels.ts';
import { HOST_PATIENCE } from '../../../../../lambda/aws/sqsWire.ts';

const [uri = '', directory = ''] = process.argv.slice(2);
process.stdout.write(await fetchModels({ s3: createS3Client(HOST_PATIENCE), uri, directory }));
