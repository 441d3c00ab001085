import type { MaybePromise } from './concurrency.ts';
import { type Failure, failure, transformFailure } from './failure.ts';
import type { HookBatch } from './hookBatch.ts';
import type { Scores, ScoringRequest } from './microBatch.ts';
import { givesOwnForm, type Model, type TransformOutputs } from './model.ts';
import type { Observer } from './observer.ts';
import { elementsPerRow, encodeRaw, keepsOrder, moveAxis, moveDim, type Tensor, viewOf, withRows } from './tensor.ts';
import { encodeData } from './values.ts';

/**
 * Formats the answers to the requests of one run. Requests for the same outputs in the same form share a frame, the
 * text around IDs and elements: ten thousand answers of 10 floats take 8 ms instead of 17 as JSON, and 3 instead of 12
 * as base64 (two cores, Node 24).
 */
export interface ScoreEncoder {
  /**
   * Returns one request's scores in the requested form, or the failure of the model's transform.
   *
   * @param fromRow first row of the request in the outputs
   */
  encode(messageId: string, request: ScoringRequest, fromRow: number): MaybePromise<Scores | Failure>;
}

type EncodeTogether = HookBatch<TransformOutputs, unknown>;

/**
 * @param together calls the batch hook of the model's transform
 * @param observer takes calls of a transform. @default none
 */
export function createEncoder(
  outputs: readonly Tensor[],
  together?: EncodeTogether,
  observer?: Pick<Observer, 'begins'>,
): ScoreEncoder {
  let sample: ScoringRequest | undefined;
  let frame: Frame = { fields: [], tail: '' };
  return {
    encode(messageId, request, fromRow) {
      if (request.reply === 'tensors') return chosenOf(request, outputs, fromRow);
      if (givesOwnForm(request.model)) {
        return encodeOwnForm(messageId, request, chosenOf(request, outputs, fromRow), together, observer);
      }
      if (sample === undefined || !isFramedAlike(sample, request)) frame = frameOf(request, outputs);
      sample = request;
      return fillFrame(frame, `{${encodeIds(messageId, request.id)}`, fromRow);
    },
  };
}

/** Creates a function that formats one row of the outputs as the answer to a request of one row. */
export function createRowEncoder(
  model: Framed['model'],
  outputs: readonly Tensor[],
): (messageId: string, row: number) => string {
  const frame = frameOf({ model, outputs: [...outputs.keys()], reply: 'json', rows: 1 }, outputs);
  return (messageId, row) => fillFrame(frame, `{${encodeIds(messageId, undefined)}`, row);
}

function fillFrame({ fields, tail }: Frame, head: string, fromRow: number): string {
  let text = head;
  for (let index = 0; index < fields.length; index++) {
    const { before, format } = fields[index] as FrameField;
    text += before + format(fromRow);
  }
  return text + tail;
}

interface Framed extends Pick<ScoringRequest, 'rows' | 'reply' | 'outputs'> {
  readonly model: Pick<Model, 'name' | 'version' | 'outputs'>;
}

interface Frame {
  readonly fields: readonly FrameField[];
  readonly tail: string;
}

interface FrameField {
  readonly before: string;
  readonly format: (fromRow: number) => string;
}

export function isFramedAlike(a: ScoringRequest, b: ScoringRequest): boolean {
  return a.rows === b.rows && a.reply === b.reply && isSameList(a.outputs, b.outputs);
}

export function isSameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && a.every((one, index) => one === b[index]));
}

function frameOf(request: Framed, outputs: readonly Tensor[]): Frame {
  const { model, reply, rows } = request;
  const head = encodeModel(model);
  if (reply === 'predictions') {
    const chosen = request.outputs.map((index) => outputs[index] as Tensor);
    const format = (fromRow: number) => encodePredictions(chosen, fromRow, rows);
    return { fields: [{ before: `${head},"predictions":[`, format }], tail: ']}' };
  }
  const binary = reply === 'binary';
  const chosen = request.outputs.map((index) => {
    const tensor = outputs[index] as Tensor;
    const batchAxis = model.outputs[index]?.batchAxis ?? 0;
    return { described: describe(tensor, rows, batchAxis), format: formatterOf(tensor, rows, batchAxis, binary) };
  });
  if (binary) {
    const described = chosen.map((output) => output.described).join('},{');
    const fields = chosen.map(({ format }, index) => ({
      before: index === 0 ? `${head},"outputs":[{${described}}],"raw_output_contents":["` : '","',
      format,
    }));
    return { fields, tail: '"]}' };
  }
  const fields = chosen.map(({ described, format }, index) => ({
    before: `${index === 0 ? `${head},"outputs":[` : ']},'}{${described},"data":[`,
    format,
  }));
  return { fields, tail: ']}]}' };
}

/** Returns a formatter for the elements of `rows` rows. It copies them only if the batch axis must move. */
function formatterOf(tensor: Tensor, rows: number, batchAxis: number, binary: boolean): (fromRow: number) => string {
  if (keepsOrder(withRows(tensor.shape, rows), 0, batchAxis)) {
    return binary ? rawRowsOf(tensor, rows) : rowsOf(tensor, rows);
  }
  return (fromRow) => {
    const { datatype, data } = answerOf(tensor, fromRow, rows, batchAxis);
    return binary ? encodeRaw(data) : encodeData(datatype, data);
  };
}

function rowsOf({ datatype, shape, data }: Tensor, rows: number): (fromRow: number) => string {
  const rowElements = elementsPerRow(shape);
  return (fromRow) => encodeData(datatype, data, fromRow * rowElements, (fromRow + rows) * rowElements);
}

function rawRowsOf({ shape, data }: Tensor, rows: number): (fromRow: number) => string {
  const rowElements = elementsPerRow(shape);
  if (Array.isArray(data)) {
    return (fromRow) => encodeRaw(data.slice(fromRow * rowElements, (fromRow + rows) * rowElements));
  }
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const rowBytes = rowElements * data.BYTES_PER_ELEMENT;
  return (fromRow) => bytes.toString('base64', fromRow * rowBytes, (fromRow + rows) * rowBytes);
}

export function encodeError(messageId: string, id: string | undefined, failed: Failure): string {
  return `{${encodeIds(messageId, id)},"code":"${failed.code}","error":${JSON.stringify(failed.message)}}`;
}

const IDS = /^{"message_id":"(?:[^"\\]|\\.)*","id":(?<id>"(?:[^"\\]|\\.)*")/;

/** Returns the request id in an answer. Returns undefined if it has none, or if the answer is an array. */
export function idInAnswer(text: string): string | undefined {
  const id = IDS.exec(text)?.groups?.id;
  return id === undefined ? undefined : String(JSON.parse(id));
}

function encodeIds(messageId: string, id: string | undefined): string {
  const head = `"message_id":${quote(messageId)}`;
  return id === undefined ? head : `${head},"id":${quote(id)}`;
}

const NOTHING_TO_ESCAPE = /^[\w-]*$/;

/** Quotes like `JSON.stringify`, but faster for plain strings, which nearly all IDs are. */
function quote(text: string): string {
  return NOTHING_TO_ESCAPE.test(text) ? `"${text}"` : JSON.stringify(text);
}

function encodeModel({ name, version }: Framed['model']): string {
  return `,"model_name":${JSON.stringify(name)},"model_version":${JSON.stringify(version)}`;
}

/** Returns the requested outputs of the request's own rows, in the model's layout. */
function chosenOf(
  { model, outputs: wanted, rows }: ScoringRequest,
  outputs: readonly Tensor[],
  fromRow: number,
): Tensor[] {
  return wanted.map((index) => answerOf(outputs[index] as Tensor, fromRow, rows, model.outputs[index]?.batchAxis));
}

function answerOf({ name, datatype, shape, data }: Tensor, fromRow: number, rows: number, batchAxis = 0): Tensor {
  const rowElements = elementsPerRow(shape);
  const mine = viewOf(data, fromRow * rowElements, (fromRow + rows) * rowElements);
  return moveAxis({ name, datatype, shape: withRows(shape, rows), data: mine }, 0, batchAxis);
}

async function encodeOwnForm(
  messageId: string,
  request: ScoringRequest,
  outputs: readonly Tensor[],
  together: EncodeTogether | undefined,
  observer: Pick<Observer, 'begins'> | undefined,
): Promise<string | Failure> {
  const { id, model } = request;
  const { encode } = model.transform ?? {};
  const hook = encode === undefined ? 'encodeBatch' : 'encode';
  const end = encode && observer?.begins?.({ isRun: false, model: model.name, expectedMs: 0, requests: [request] });
  try {
    const head = `${encodeIds(messageId, id)}${encodeModel(model)}`;
    const own = (): TransformOutputs => ownOutputs(outputs);
    const soon = encode === undefined ? together?.add(own, request) : encode(own());
    // An available result is formatted synchronously, because the transform may reuse the object.
    const text = JSON.stringify(soon instanceof Promise ? await soon : soon, formatExactly);
    if (text !== undefined) return `{${head},"result":${text}}`;
    return failure('TRANSFORM_FAILED', `expected a value that JSON can hold from the transform's ${hook}, got none`);
  } catch (error) {
    return transformFailure(model.name, error, (reason) => `the transform's ${hook}: ${reason}`);
  } finally {
    end?.();
  }
}

/** Copies the outputs, because a transform may change them, and neighbours share their memory. */
function ownOutputs(outputs: readonly Tensor[]): TransformOutputs {
  return Object.fromEntries(
    outputs.map(({ name, datatype, shape, data }) => [name, { datatype, shape, data: data.slice() }]),
  );
}

/** Replacer for `JSON.stringify`: writes numbers that JSON would turn into null or refuse like other results do. */
function formatExactly(_key: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return ArrayBuffer.isView(value) && !(value instanceof DataView) ? Array.from(value as Uint8Array) : value;
}

function describe({ name, datatype, shape }: Tensor, rows: number, batchAxis: number): string {
  const sizes = moveDim(withRows(shape, rows), 0, batchAxis);
  return `"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${sizes.join(',')}]`;
}

/** Formats one prediction per row: the output's values, or an object by output name if there are several. */
function encodePredictions(outputs: readonly Tensor[], fromRow: number, rows: number): string {
  const predictions = Array.from({ length: rows }, (_, row) => {
    const values = outputs.map((output) => encodeRow(output, fromRow + row));
    if (values.length === 1) return values[0];
    return `{${values.map((value, index) => `${JSON.stringify(outputs[index]?.name)}:${value}`).join(',')}}`;
  });
  return predictions.join(',');
}

function encodeRow({ shape, datatype, data }: Tensor, row: number): string {
  const rowElements = elementsPerRow(shape);
  const elements = viewOf(data, row * rowElements, (row + 1) * rowElements);
  return nest(datatype, elements, shape.slice(1));
}

/** Nests elements by `shape`. Returns a scalar for `[]`. */
function nest(datatype: Tensor['datatype'], elements: Tensor['data'], shape: readonly number[]): string {
  if (shape.length <= 1)
    return shape.length === 0 ? encodeData(datatype, elements) : `[${encodeData(datatype, elements)}]`;
  const [outer = 0, ...inner] = shape;
  const size = outer === 0 ? 0 : elements.length / outer;
  const slices = Array.from({ length: outer }, (_, index) => viewOf(elements, index * size, (index + 1) * size));
  return `[${slices.map((slice) => nest(datatype, slice, inner)).join(',')}]`;
}

/** Shortest element with its separator. */
const FEWEST_CHARACTERS_AN_ELEMENT = 2;
const BASE64_CHARACTERS_A_BYTE = 4 / 3;

/**
 * Returns the minimum length of a request's answer, to refuse one that is too large before it is formatted. Returns 0
 * if a transform formats it, or nothing does.
 *
 * @param outputs of a run, one tensor per model output, each `[rows, …]`
 */
export function fewestCharacters(request: ScoringRequest, outputs: readonly Tensor[]): number {
  if (request.reply === 'tensors' || givesOwnForm(request.model)) return 0;
  let characters = 0;
  for (const index of request.outputs) {
    const { shape, data } = outputs[index] as Tensor;
    const elements = request.rows * elementsPerRow(shape);
    const isBinary = request.reply === 'binary' && !Array.isArray(data);
    characters += isBinary
      ? elements * data.BYTES_PER_ELEMENT * BASE64_CHARACTERS_A_BYTE
      : elements * FEWEST_CHARACTERS_AN_ELEMENT;
  }
  return characters;
}
