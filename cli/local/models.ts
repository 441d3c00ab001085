import { CLIENT_PATIENCE, createS3Client } from '../../lambda/aws/awsClients.ts';
import { fetchModels } from '../../lambda/aws/fetchModels.ts';
import { isS3Uri } from '../../lambda/core/places.ts';

/** The folder of a model repository; one that was published is fetched from S3, with the credentials of this machine. */
export async function localModels(models: string, inform: (message: string) => void): Promise<string> {
  if (!isS3Uri(models)) return models;
  const s3 = createS3Client(CLIENT_PATIENCE);
  try {
    return await fetchModels({ s3, uri: models, inform });
  } finally {
    s3.destroy();
  }
}
