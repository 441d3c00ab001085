import { count } from '../../format.ts';
import type { ModelSeen, State, TensorSeen } from '../wire.ts';
import { prettyOf } from './answer.ts';
import { byId, make, things } from './dom.ts';

/** Fields of a form, and the message body that they make. The body function throws an Error that the page shows. */
interface Way {
  readonly fields: readonly HTMLElement[];
  readonly body: () => string;
}

/** Part of a form, and the part of the request that it creates. */
interface Field {
  readonly element: HTMLElement;
  readonly json: () => string;
}

interface Tensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

/** Number of messages for "Send … times". They keep batches full for a moment. */
const MANY = 500;

/** Adds the choices: a form for each model with a sample, and a form for any request. */
export function offerWays(
  models: State['models'],
  onSent: (messageId: string) => void,
  onRefused: (error: string) => void,
): void {
  const text = make('textarea', { class: 'value', rows: 8, maxlength: 60_000, spellcheck: 'false' });
  const any: Way = {
    fields: [make('label', { class: 'typed' }, 'Body of the message ', text)],
    body: () => text.value,
  };
  let chosen: Way = { fields: [], body: () => '{"instances":[]}' };
  const choose = (way: Way): void => {
    if (way === any) text.value = prettyOf(bodyOr(chosen.body, text.value));
    chosen = way;
    byId('fields').replaceChildren(...way.fields);
  };
  const offer = (label: string, way: Way): HTMLInputElement => {
    const radio = make('input', { type: 'radio', name: 'way', onchange: () => choose(way) });
    byId('ways').append(make('label', {}, radio, ` ${label}`));
    return radio;
  };
  const send = async (times: number): Promise<void> => {
    try {
      onSent((await post('/ask', { body: chosen.body(), times })).messageId);
    } catch (error) {
      onRefused(error instanceof Error ? error.message : String(error));
    }
  };
  byId('ask').addEventListener('submit', (event) => {
    event.preventDefault();
    void send(1);
  });
  byId('many').addEventListener('click', () => void send(MANY));
  const ways = models.flatMap((model) =>
    model.sample === undefined ? [] : [offer(model.name, wayOf(model, model.sample))],
  );
  ways.push(offer('Any request', any));
  ways[0]?.click();
}

/** Returns the form's body, or the last one if the form's values do not make a valid request. */
function bodyOr(body: () => string, last: string): string {
  try {
    return body();
  } catch {
    return last;
  }
}

function wayOf(model: ModelSeen, sample: string): Way {
  const request = JSON.parse(sample);
  const ofTensors = Array.isArray(request.inputs) && !model.hasTransform;
  const fields: readonly Field[] = ofTensors
    ? request.inputs.map((input: Tensor) => tensorField(input, model))
    : Object.keys(request)
        .filter((key) => !/^(id|model_name|model_version)$/.test(key))
        .map((key) => keyField(key, request[key]));
  const body = (): string => {
    const texts = fields.map(({ json }) => json());
    const held = ofTensors ? [`"inputs":[${texts.join(',')}]`] : texts;
    return `{${[`"model_name":${JSON.stringify(model.name)}`, ...held].join(',')}}`;
  };
  return { fields: fields.map(({ element }) => element), body };
}

function labelled(name: string, note: string, value: string, isLong: boolean) {
  const input = isLong ? make('textarea', { class: 'value', rows: 4 }) : make('input', { class: 'value' });
  input.value = value;
  input.spellcheck = false;
  return { element: make('label', { class: 'typed' }, `${name} `, make('small', {}, note), input), input };
}

/**
 * Creates the field of an input: its elements with commas between them, or a single text. The size of an open axis
 * follows the values.
 */
function tensorField({ name, datatype, shape, data }: Tensor, model: ModelSeen): Field {
  const isText = datatype === 'BYTES' && data.length === 1;
  const axes: TensorSeen['shape'] = model.inputs.find((input) => input.name === name)?.shape ?? shape;
  const shown = isText ? String(data[0]) : data.map((element) => JSON.stringify(element)).join(', ');
  const { element, input } = labelled(name, `${datatype} [${axes.join(', ')}]`, shown, isText || shown.length > 40);
  const open = axes.findLastIndex((axis) => typeof axis === 'string');
  const unit = shape.reduce((all, size, axis) => (axis === open ? all : all * size), 1);
  const json = (): string => {
    // Numbers are sent as typed, because JavaScript would round a large INT64.
    const typed = isText ? JSON.stringify(input.value) : input.value.trim();
    const { length } = listOf(typed, `${name}: expected values with commas between them`);
    if (open < 0 ? length !== unit : length === 0 || length % unit !== 0) {
      const many = `${open < 0 || unit === 1 ? '' : 'a multiple of '}${things(unit, 'value')}`;
      throw new Error(`${name}: expected ${many}, got ${count(length)}.`);
    }
    const sizes = shape.map((size, axis) => (axis === open ? length / unit : size));
    return `{"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${sizes}],"data":[${typed}]}`;
  };
  return { element: hasPicture(model) ? pictureOf(element, input) : element, json };
}

function keyField(key: string, value: unknown): Field {
  const isText = typeof value === 'string';
  const { element, input } = labelled(key, isText ? 'text' : 'JSON', isText ? value : JSON.stringify(value), true);
  const json = (): string => {
    const typed = isText ? JSON.stringify(input.value) : input.value;
    listOf(typed, `${key}: expected JSON`);
    return `${JSON.stringify(key)}:${typed}`;
  };
  return { element, json };
}

function listOf(text: string, expected: string): readonly unknown[] {
  try {
    return JSON.parse(`[${text}]`);
  } catch {
    throw new Error(`${expected}, got ${text.slice(0, 60) || 'nothing'}.`);
  }
}

/** Answers by path. The page and its server are built together, so they agree on them. */
interface Answers {
  readonly '/state': State;
  readonly '/ask': { readonly messageId: string };
}

/** Sends a request to the server. @throws Error with the sentence of a refusal */
export async function post<Path extends keyof Answers>(path: Path, body: object): Promise<Answers[Path]> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) }).catch(() => undefined);
  if (response === undefined) throw new Error('npm run dev does not answer: nothing was sent.');
  const answer = await response.json();
  if (response.ok) return answer;
  throw new Error(String(answer.error));
}

const SIDE = 8;
const FULL = 16;
/** Radius of the pen, in cells, and the sharpness of its edge. */
const RADIUS = 1.3;
const SHARPNESS = 1.6;

/** Returns true for the model of handwritten digits. */
function hasPicture({ name, inputs }: ModelSeen): boolean {
  return name === 'digits' && inputs.length === 1 && inputs[0]?.shape[1] === SIDE * SIDE;
}

/** Adds a picture of 8 × 8 grey values, 0 to 16, to a field of numbers. Drawing writes the numbers, and vice versa. */
function pictureOf(field: HTMLElement, input: HTMLInputElement | HTMLTextAreaElement): HTMLElement {
  const cells = Array.from({ length: SIDE * SIDE }, () => make('div', { class: 'cell' }));
  const picture = make('div', { class: 'picture', 'aria-hidden': 'true' }, ...cells);
  const values = (): number[] => {
    const typed = input.value.split(',').map(Number);
    return cells.map((_, index) => typed[index] || 0);
  };
  const show = (): void => {
    for (const [index, value] of values().entries()) cells[index]?.style.setProperty('--level', `${value / FULL}`);
  };
  const write = (drawn: readonly number[]): void => {
    input.value = drawn.join(', ');
    input.dispatchEvent(new Event('input', { bubbles: true }));
  };
  input.addEventListener('input', show);
  drawOn(picture, (points) => {
    const inked = values().map((before, index) => {
      const [column, row] = [(index % SIDE) + 0.5, Math.floor(index / SIDE) + 0.5];
      const distance = Math.min(...points.map(([x, y]) => Math.hypot(column - x, row - y)));
      return Math.max(before, Math.round(FULL * Math.min(1, Math.max(0, SHARPNESS * (1 - distance / RADIUS)))));
    });
    write(inked);
  });
  show();
  const clear = make('button', { type: 'button', onclick: () => write(cells.map(() => 0)) }, 'Clear');
  return make('div', { class: 'drawn' }, make('div', {}, picture, clear), field);
}

type Point = readonly [x: number, y: number];

/** @param ink draws around points, given in cells */
function drawOn(element: HTMLElement, ink: (points: readonly Point[]) => void): void {
  let pen: Point | undefined;
  const draw = (event: PointerEvent): void => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const [x, y] = [((event.clientX - left) / width) * SIDE, ((event.clientY - top) / height) * SIDE];
    const [fromX, fromY] = pen ?? [x, y];
    const steps = Math.ceil(4 * Math.hypot(x - fromX, y - fromY)) || 1;
    const shares = Array.from({ length: steps }, (_, step) => (step + 1) / steps);
    ink(shares.map((share) => [fromX + (x - fromX) * share, fromY + (y - fromY) * share]));
    pen = [x, y];
  };
  element.addEventListener('pointerdown', (event) => {
    element.setPointerCapture(event.pointerId);
    pen = undefined;
    draw(event);
  });
  element.addEventListener('pointermove', (event) => {
    if (event.buttons === 1) draw(event);
  });
}
