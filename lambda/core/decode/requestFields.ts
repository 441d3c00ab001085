import { isObject, type JsonObject } from '../base/json.ts';
import { type Failure, failure, preview } from '../contract/failure.ts';
import { fieldOf } from './fieldPath.ts';
import { SEE_FORMAT } from './unknownKeys.ts';

const MAX_ID_CHARACTERS = 1024;

export function decodeId(id: unknown, path: string): string | undefined | Failure {
  if (id === undefined) return undefined;
  if (typeof id !== 'string' || id.length > MAX_ID_CHARACTERS) {
    const got = typeof id === 'string' ? `${id.length} characters` : preview(id);
    return failure(
      'INVALID_REQUEST',
      `${fieldOf(path, 'id')}: expected a string of at most ${MAX_ID_CHARACTERS} characters, got ${got}; shorten it or leave it out`,
    );
  }
  return id;
}

/** What is wrong with the model's name or version, if anything. */
export function refuseModelName(
  { model_name: name, model_version: version }: JsonObject,
  path: string,
): Failure | undefined {
  if (name !== undefined && typeof name !== 'string') {
    return failure(
      'INVALID_REQUEST',
      `${fieldOf(path, 'model_name')}: expected a string, got ${preview(name)}; ${SEE_FORMAT}`,
    );
  }
  if (version !== undefined && typeof version !== 'string') {
    const versionPath = fieldOf(path, 'model_version');
    return failure(
      'INVALID_REQUEST',
      `${versionPath}: expected a string such as "1", got ${preview(version)}; put it in quotes`,
    );
  }
  return undefined;
}

/** Parameters may hold other servers' keys; batchscore reads only `binary_data_output`. */
export function decodeBinaryOutput(value: unknown, path: string): boolean | undefined | Failure {
  if (value === undefined) return undefined;
  const parametersPath = fieldOf(path, 'parameters');
  if (!isObject(value))
    return failure('INVALID_REQUEST', `${parametersPath}: expected an object, got ${preview(value)}; ${SEE_FORMAT}`);
  const binaryOutput = value.binary_data_output;
  if (binaryOutput === undefined || typeof binaryOutput === 'boolean') return binaryOutput;
  return failure(
    'INVALID_REQUEST',
    `${parametersPath}.binary_data_output: expected true or false, got ${preview(binaryOutput)}; send one of them`,
  );
}
