import type { DecodeDependencies } from '../../../../lambda/core/body.ts';
import { createTemplates, type Templates } from '../../../../lambda/core/bodyTemplate.ts';
import { type DecodedBody, type DecodedRequest, isPacked, isRefused } from '../../../../lambda/core/microBatch.ts';
import { isBase64Data } from '../../../../lambda/core/tensor.ts';
import { modelOf, repositoryOf, spec } from '../../../helpers/scoring.ts';
import { bitsOf } from '../arbitraries.ts';
import { BODY_INPUTS } from './bodies.ts';

/** The model of {@link BODY_INPUTS}. */
export const wide = modelOf(
  {
    inputs: [spec('matrix', 'FP32', 'batch', 2), spec('index', 'INT64', 'batch', 1), spec('flags', 'UINT8', 'batch')],
    outputs: [spec('out', 'FP32', 'batch')],
  },
  { name: 'wide' },
);
export const DEPS: DecodeDependencies = {
  models: repositoryOf(wide),
  limits: { maxRequestRows: 100, maxRequestsPerMessage: 10_000 },
};

/** Everything that a decoded body holds, elements by their bits. */
export function contentsOf(decoded: DecodedBody | Promise<DecodedBody>): unknown {
  if (decoded instanceof Promise) throw new Error('expected a body that is decoded at once');
  return isPacked(decoded) ? decoded.map(contentsOfRequest) : contentsOfRequest(decoded);
}

function contentsOfRequest(request: DecodedRequest): unknown {
  if (isRefused(request)) return request;
  const inputs = request.inputs.map(({ datatype, shape, data }) => {
    return { datatype, shape, data: isBase64Data(data) ? data : bitsOf(data) };
  });
  return { ...request, model: request.model.name, inputs };
}

export const DATA = { matrix: [1.5, 2], index: [3], flags: [4] };

export function jsonBody(fields: Readonly<Record<string, unknown>>, data: typeof DATA = DATA): string {
  const inputs = BODY_INPUTS.map(({ name, datatype, columns }) => {
    return { name, datatype, shape: name === 'flags' ? [1] : [1, columns], data: data[name] };
  });
  return JSON.stringify({ ...fields, inputs });
}

export function binaryBody(id: string, first: number): string {
  const inputs = BODY_INPUTS.map(({ name, datatype, columns }) => {
    return { name, datatype, shape: name === 'flags' ? [1] : [1, columns] };
  });
  const raw = BODY_INPUTS.map(({ columns, bytes }, index) =>
    Buffer.alloc(columns * bytes, first + index).toString('base64'),
  );
  return JSON.stringify({ id, inputs, raw_input_contents: raw });
}

/** Templates that count the requests that they read: those alone in their body, or those of packed bodies. */
export function countedTemplates(what: 'alone' | 'packed'): Templates & { readonly hits: () => number } {
  const templates = createTemplates();
  const hits = { alone: 0, packed: 0 };
  const counted = <T>(request: T | undefined, kind: keyof typeof hits): T | undefined => {
    if (request !== undefined) hits[kind] += 1;
    return request;
  };
  return {
    ...templates,
    hits: () => hits[what],
    read: (body, record) => counted(templates.read(body, record), 'alone'),
    readNext: (body, cursor) => counted(templates.readNext(body, cursor), 'packed'),
  };
}
