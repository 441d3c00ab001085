import { join } from 'node:path';
import pLimit from 'p-limit';
import { assertRegion } from '../client/batchscore.ts';
import { CLIENT_PATIENCE, createS3Client } from '../lambda/aws/awsClients.ts';
import { digestOf, fileKey, type ModelFile, manifestKey, writeManifest } from '../lambda/aws/modelManifest.ts';
import { parseModelsUri, parseS3Prefix } from '../lambda/core/places.ts';

import { parseCommand, UsageError } from './arguments.ts';
import { progressBar } from './bar.ts';
import { listenForInterruption } from './interruption.ts';
import { createPutFile, type PutFile } from './publish/putFile.ts';
import { readModels } from './publish/readModels.ts';
import { readPart } from './publish/readPart.ts';
import { storageFor } from './publish/storage.ts';

const HELP = `Usage: batchscore publish FOLDER s3://BUCKET/PREFIX [options]

Puts a model repository into S3, for functions that fetch their models at start instead of
having them in their image, and prints its URI, s3://BUCKET/PREFIX/<digest>, for models in
cdk.json. The digest is that of the content: what was published stays as it is beside what is
published later, and a deployment has the models that it names.

  FOLDER              the model repository, FOLDER/<name>/<version>/model.onnx; the files of
                      training are left out, as they are of images
  s3://BUCKET/PREFIX  where it goes; what is there already is not sent again

  --region REGION     the bucket's region (default: that of the AWS profile)
  --json              print the summary as one JSON object
  --help              show this

The URI goes to stdout, the summary to stderr.
Exit code: 0 published, 1 not, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
`;

const ATTEMPTS = 6;
const FILES_AT_A_TIME = 8;

async function run(args: readonly string[]): Promise<number> {
  const { options, positionals } = parseCommand(args, ['FOLDER', 's3://BUCKET/PREFIX'], {
    region: { type: 'string' },
    json: { type: 'boolean', default: false },
  });
  const [folder = '', target = ''] = positionals;
  const { bucket, prefix } = targetOf(target);
  const files = await readModels(folder);
  const manifest = writeManifest(files);
  const digest = digestOf(manifest);
  const place = prefix === '' ? digest : `${prefix}/${digest}`;

  const s3 = createS3Client(CLIENT_PATIENCE, { region: options.region, maxAttempts: ATTEMPTS });
  await assertRegion([s3]);
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const bar = progressBar('publishing', bytes);
  let sent = 0;
  const onBytes = (more: number): void => {
    sent += more;
    bar.update(sent);
  };
  const stopping = new AbortController();
  const interrupt = (): void => stopping.abort(new Error('interrupted'));
  const { exitCode, finished } = listenForInterruption('the upload, by removing unfinished parts', interrupt);
  const putFile = createPutFile({ s3, bucket, signal: stopping.signal, onBytes });
  try {
    const uploaded = await putFiles(putFile, folder, place, files, stopping);
    // Last: where the manifest is, all that it names is.
    const content = Buffer.from(manifest);
    await putFile({
      key: manifestKey(place),
      name: 'the manifest',
      bytes: content.length,
      parts: [digest],
      read: async () => content,
    });
    bar.stop();
    report({ uri: `s3://${bucket}/${place}`, files: files.length, bytes, uploaded }, options.json);
  } catch (error) {
    if (exitCode() === undefined) throw error;
    process.stderr.write('stopped; run the same command again to go on\n');
  } finally {
    bar.stop();
    s3.destroy();
    finished();
  }
  return exitCode() ?? 0;
}

/** @throws UsageError for what is no place, or one that holds a published repository */
function targetOf(target: string) {
  const place = parseS3Prefix(target);
  if (place !== undefined && parseModelsUri(target) === undefined) return place;
  throw new UsageError(
    `expected s3://BUCKET/PREFIX, of letters, digits and . _ = + -, and without a digest at its end, got '${target}'`,
  );
}

/**
 * @returns how many were not there yet
 * @throws Error of the first file that was not taken, once nothing is under way any more
 */
async function putFiles(
  putFile: PutFile,
  folder: string,
  place: string,
  files: readonly ModelFile[],
  stopping: AbortController,
): Promise<number> {
  const atATime = pLimit(FILES_AT_A_TIME);
  const put = async ({ path, ...file }: ModelFile): Promise<boolean> => {
    stopping.signal.throwIfAborted();
    const name = join(folder, path);
    return putFile({ ...file, key: fileKey(place, path), name, read: (part) => readPart(name, part) });
  };
  const outcomes = files.map((file) => atATime(() => put(file)).catch((error) => void stopping.abort(error)));
  const uploaded = await Promise.all(outcomes);
  stopping.signal.throwIfAborted();
  return uploaded.filter((isNew) => isNew).length;
}

interface Summary {
  readonly uri: string;
  readonly files: number;
  readonly bytes: number;
  readonly uploaded: number;
}

function report({ uri, files, bytes, uploaded }: Summary, json: boolean): void {
  const { leastMb, advice } = storageFor(bytes);
  if (json) {
    process.stdout.write(`${JSON.stringify({ uri, files, bytes, uploaded, ephemeralStorageMb: leastMb })}\n`);
    return;
  }
  process.stdout.write(`${uri}\n`);
  const size = `${files} ${files === 1 ? 'file' : 'files'}, ${(bytes / 1e6).toFixed(1)} MB`;
  const done = `${uploaded} uploaded, ${files - uploaded} there before`;
  process.stderr.write(`${size}: ${done}; set models to the URI in cdk.json, ${advice}and deploy\n`);
}

export const publish = { help: HELP, run };
