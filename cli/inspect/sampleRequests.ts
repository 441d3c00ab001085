import { encodeRequest } from '../../client/encodeRequest.ts';
import { decodeAll, isBase64Data } from '../../lambda/core/base64.ts';
import { isObject } from '../../lambda/core/json.ts';
import type { Model } from '../../lambda/core/model.ts';
import type { RequestInput } from '../../lambda/core/scoringRequest.ts';
import { moveAxis } from '../../lambda/core/tensor.ts';

import { createRowScoring, type RowScoring } from '../../lambda/jobs/scoreRows.ts';
import type { ModelConfig } from '../../lambda/onnx/modelConfig.ts';
import type { ModelGraph } from '../../lambda/onnx/modelFile.ts';
import { decodeSamples, type SampleLines } from '../../lambda/onnx/probes.ts';
import { OFFLINE_LIMITS } from '../offline/limits.ts';
import { printable } from '../printable.ts';
import type { Answer, FailedRequest, Sample } from './inspection.ts';
import { madeUpInputs } from './madeUpInputs.ts';

export interface Samples {
  readonly samples: readonly Sample[];
  readonly isMadeUp: boolean;
  /** Why there is none. */
  readonly noSample?: string | undefined;
  readonly failed?: FailedRequest | undefined;
}

interface Texts {
  /** Where it is from. */
  readonly place: string;
  readonly json: string;
  readonly binary: string | undefined;
}

/**
 * Requests that the model has answered, in both forms, from their text to the text of the answer: those of
 * `samples.jsonl`, else made-up ones.
 *
 * @param lines of `samples.jsonl`
 */
export async function sampleRequests(
  model: Model,
  lines: SampleLines,
  graph: ModelGraph,
  warmUp: ModelConfig['warmup'],
): Promise<Samples> {
  const scoring = createRowScoring({
    models: { find: () => model },
    limits: OFFLINE_LIMITS,
    checkPercent: 0,
    observer: {},
  });
  if (lines.lines.length > 0) {
    const { samples, failed } = await answered(await realTexts(model, lines), scoring);
    return { samples, isMadeUp: false, failed, ...(samples.length === 0 && { noSample: failed?.reason }) };
  }
  if (model.transform?.decode !== undefined) {
    return none(
      'the model has a transform, which takes requests of its own: put one into samples.jsonl beside config.json',
    );
  }
  if (graph.operators.has('Loop')) {
    return none(
      'the model has a loop, which may never end with made-up values: put a request into samples.jsonl beside config.json',
    );
  }
  let first: FailedRequest | undefined;
  for (const rows of madeUpInputs(model, graph, warmUp)) {
    const texts = rows.map((inputs, index) => textsOf(model, inputs, `sample-${index + 1}`, 'a made-up request'));
    const { samples, failed } = await answered(texts, scoring);
    if (samples.length > 0) return { samples, isMadeUp: true };
    first ??= failed;
  }
  return {
    ...none('it answers none that was made up: put a request into samples.jsonl beside config.json'),
    failed: first,
  };
}

function none(noSample: string): Samples {
  return { samples: [], isMadeUp: true, noSample };
}

/** The requests to which both forms are answered with scores. */
async function answered(texts: readonly Texts[], scoring: RowScoring): Promise<Pick<Samples, 'samples' | 'failed'>> {
  const samples: Sample[] = [];
  let first: FailedRequest | undefined;
  for (const { place, json, binary } of texts) {
    const forms = binary === undefined ? [json] : [json, binary];
    const { answers } = await scoring.score(forms.map((text, index) => ({ id: String(index), text })));
    const failed = answers.flatMap((answer) => answer?.failures ?? [])[0];
    const answer = answers[0]?.text;
    if (failed === undefined && answer !== undefined) samples.push({ json, binary, answer: withoutMessageId(answer) });
    else first ??= { place, json, reason: failed?.message ?? 'no answer' };
  }
  return { samples, failed: first };
}

function withoutMessageId(text: string): Answer {
  const { message_id: _, ...answer } = JSON.parse(text);
  return answer;
}

/** As producers send them where the model has a transform; else in the canonical form, whatever form they have. */
async function realTexts(model: Model, lines: SampleLines): Promise<Texts[]> {
  const placeOf = (index: number): string => `${lines.path}:${lines.lines[index]?.number}`;
  if (model.transform?.decode !== undefined) {
    return lines.lines.map(({ line }, index) => {
      return { place: placeOf(index), json: ownForm(model, line, index), binary: undefined };
    });
  }
  const requests = await decodeSamples(lines, model);
  return requests.map(({ inputs, id }, index) => textsOf(model, inputs, id ?? `sample-${index + 1}`, placeOf(index)));
}

/** Any deployment takes it, as it names its model. */
function ownForm({ name }: Model, line: string, index: number): string {
  const body: unknown = JSON.parse(line);
  if (!isObject(body)) return line;
  const { model_version: _, ...rest } = body;
  return printable(encodeRequest({ body: { id: `sample-${index + 1}`, ...rest, model_name: name } }, 'json'));
}

function textsOf(model: Model, inputs: readonly RequestInput[], id: string, place: string): Texts {
  const tensors = model.inputs.map((spec, index): [string, RequestInput] => {
    const { datatype, shape, data } = inputs[index] as RequestInput;
    const elements = isBase64Data(data) ? decodeAll(data, datatype, shape) : data;
    return [spec.name, moveAxis({ datatype, shape, data: elements }, 0, spec.batchAxis ?? 0)];
  });
  const request = { id, model: model.name, inputs: Object.fromEntries(tensors) } as Parameters<typeof encodeRequest>[0];
  return {
    place,
    json: printable(encodeRequest(request, 'json')),
    binary: printable(encodeRequest(request, 'binary')),
  };
}
