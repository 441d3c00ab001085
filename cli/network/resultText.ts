import type { OutputTensors, ScoringResult, SingleResult } from '../../client/index.ts';
import { encodeData } from '../../lambda/core/encode.ts';

/** A result as one line of JSON, in the form of docs/message-format.md; binary outputs are written as `data`. */
export function resultText(result: ScoringResult): string {
  const { messageId } = result;
  return 'results' in result
    ? `[${result.results.map((one) => singleText(messageId, one)).join(',')}]`
    : singleText(messageId, result);
}

function singleText(messageId: string, result: SingleResult): string {
  const fields = [`"message_id":${JSON.stringify(messageId)}`];
  const add = (key: string, value: unknown): void => {
    if (value !== undefined) fields.push(`"${key}":${JSON.stringify(value)}`);
  };
  add('id', result.id);
  if ('error' in result) {
    add('code', result.error.code);
    add('error', result.error.message);
    return `{${fields.join(',')}}`;
  }
  add('model_name', result.model);
  add('model_version', result.version);
  if ('outputs' in result) fields.push(`"outputs":[${outputTexts(result.outputs).join(',')}]`);
  else if ('predictions' in result) add('predictions', result.predictions);
  else add('result', result.result);
  return `{${fields.join(',')}}`;
}

function outputTexts(outputs: OutputTensors): string[] {
  return Object.entries(outputs).map(
    ([name, { datatype, shape, data }]) =>
      `{"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${shape.join(',')}],` +
      `"data":[${encodeData(datatype, data)}]}`,
  );
}
