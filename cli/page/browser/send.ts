import { count } from '../../format.ts';
import type { ModelSeen, TensorSeen } from '../wire.ts';
import { byId, make, setText, things } from './dom.ts';

/** Form, and the message body that it creates. The body function throws an Error that the form shows. */
interface Way {
  readonly form: HTMLElement;
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

/** Adds the choices: a form for each model with a sample, and a form for any request. */
export function offerWays(
  models: readonly ModelSeen[],
  onSent: (messageId: string) => void,
  onRefused: (error: string) => void,
): void {
  const text = byId('request', HTMLTextAreaElement);
  let shown = (): string => '{"instances":[]}';
  const offer = (label: string, { form, body }: Way): HTMLInputElement => {
    const radio = make('input', { type: 'radio', name: 'way' });
    byId('ways').append(make('label', {}, radio, ` ${label}`));
    radio.addEventListener('change', () => {
      for (const other of byId('ask').querySelectorAll('form')) other.hidden = other !== form;
      if (!form.contains(text)) shown = body;
      else text.value = prettyOf(bodyOr(shown, text.value));
    });
    const send = async (times: number): Promise<void> => {
      try {
        onSent(String((await post('/ask', { body: body(), times })).messageId));
      } catch (error) {
        onRefused(error instanceof Error ? error.message : String(error));
      }
    };
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void send(1);
    });
    form.append(
      make(
        'div',
        { class: 'buttons' },
        make('button', { type: 'submit', class: 'primary' }, 'Send'),
        make('button', { type: 'button', onclick: () => void send(MANY) }, `Send ${MANY} times`),
      ),
    );
    return radio;
  };
  const ways = models.flatMap((model) =>
    model.sample === undefined ? [] : [offer(model.name, wayOf(model, model.sample))],
  );
  ways.push(offer('Any request', { form: byId('send-request'), body: () => text.value }));
  ways[0]?.click();
  const without = models.flatMap(({ name, noSample }) => (noSample === undefined ? [] : [`${name}: ${noSample}`]));
  setText(byId('no-sample'), without.join('; '));
}

/** Number of messages for "Send … times". They keep batches full for a moment. */
const MANY = 500;

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
  if (model.name === 'digits' && model.inputs.length === 1 && model.inputs[0]?.shape[1] === SIDE * SIDE) {
    const digit = createDigit(byId('digit'));
    const [input] = request.inputs;
    digit.set(input.data);
    byId('clear').addEventListener('click', () => digit.set([]));
    const body = (): string =>
      JSON.stringify({ ...request, id: undefined, inputs: [{ ...input, data: digit.values() }] });
    return { form: byId('send-digit'), body };
  }
  const ofTensors = Array.isArray(request.inputs) && !model.hasTransform;
  const fields: readonly Field[] = ofTensors
    ? request.inputs.map((input: Tensor) => tensorField(input, model.inputs))
    : Object.keys(request)
        .filter((key) => !/^(id|model_name|model_version)$/.test(key))
        .map((key) => keyField(key, request[key]));
  const form = make(
    'form',
    { hidden: true },
    make('div', { class: 'fields' }, ...fields.map(({ element }) => element)),
  );
  byId('ask').append(form);
  const body = (): string => {
    const texts = fields.map(({ json }) => json());
    const held = ofTensors ? [`"inputs":[${texts.join(',')}]`] : texts;
    return `{${[`"model_name":${JSON.stringify(model.name)}`, ...held].join(',')}}`;
  };
  return { form, body };
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
function tensorField({ name, datatype, shape, data }: Tensor, inputs: readonly TensorSeen[]): Field {
  const isText = datatype === 'BYTES' && data.length === 1;
  const axes = inputs.find((input) => input.name === name)?.shape ?? shape;
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
  return { element, json };
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

/**
 * Formats JSON text with line breaks, and with each array of plain values on one line. It returns other text unchanged.
 */
export function prettyOf(text: string): string {
  try {
    const pretty = JSON.stringify(JSON.parse(text), null, 2);
    // JSON strings contain no line breaks, so a line break after a bracket starts an array.
    return pretty.replace(/\[\n\s+([^[\]{}]*?)\n\s*\]/g, (_, values) => `[${values.replace(/\n\s+/g, ' ')}]`);
  } catch {
    return text;
  }
}

/** Sends a request to the server. @throws Error with the sentence of a refusal */
export async function post(path: string, body: object): Promise<Record<string, unknown>> {
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

/** Creates a picture of 8 × 8 grey values, 0 to 16, to draw with a mouse, a finger or the keyboard. */
function createDigit(element: HTMLElement) {
  element.setAttribute('role', 'grid');
  element.setAttribute('aria-label', 'Digit, 8 by 8');
  element.setAttribute('aria-describedby', 'digit-help');
  const values: number[] = new Array(SIDE * SIDE).fill(0);
  const cells = values.map((_, index) =>
    make('div', { role: 'gridcell', class: 'cell', tabindex: index === 0 ? 0 : -1 }),
  );
  for (let row = 0; row < SIDE; row++) {
    element.append(make('div', { role: 'row' }, ...cells.slice(row * SIDE, (row + 1) * SIDE)));
  }
  const put = (index: number, value: number): void => {
    const cell = cells[index];
    if (cell === undefined) return;
    values[index] = value;
    cell.style.setProperty('--level', `${(100 * value) / FULL}%`);
    const [row, column] = [Math.floor(index / SIDE) + 1, (index % SIDE) + 1];
    cell.setAttribute('aria-label', `row ${row}, column ${column}: ${value} of ${FULL}`);
  };
  drawByKeyboard(element, cells, (index) => put(index, values[index] === 0 ? FULL : 0));
  drawByPointer(element, (x, y) => {
    for (const [index, before] of values.entries()) {
      const distance = Math.hypot((index % SIDE) + 0.5 - x, Math.floor(index / SIDE) + 0.5 - y);
      const value = Math.round(FULL * Math.min(1, Math.max(0, SHARPNESS * (1 - distance / RADIUS))));
      if (value > before) put(index, value);
    }
  });
  const set = (given: readonly number[]): void => {
    for (const index of values.keys()) put(index, given[index] ?? 0);
  };
  set([]);
  return { values: () => [...values], set };
}

function drawByKeyboard(element: HTMLElement, cells: readonly HTMLElement[], turn: (index: number) => void): void {
  let current = 0;
  element.addEventListener('keydown', (event) => {
    const next = nextCell(event.key, current);
    if (next !== undefined) {
      cells[current]?.setAttribute('tabindex', '-1');
      current = next;
      cells[current]?.setAttribute('tabindex', '0');
      cells[current]?.focus();
    } else if (event.key === ' ') turn(current);
    else return;
    event.preventDefault();
  });
}

/** Returns the cell that an arrow key moves to, within the picture. */
function nextCell(key: string, from: number): number | undefined {
  const column = from % SIDE;
  const steps: Readonly<Record<string, number>> = {
    ArrowLeft: column > 0 ? -1 : 0,
    ArrowRight: column < SIDE - 1 ? 1 : 0,
    ArrowUp: from >= SIDE ? -SIDE : 0,
    ArrowDown: from < SIDE * (SIDE - 1) ? SIDE : 0,
    Home: -column,
    End: SIDE - 1 - column,
  };
  const step = steps[key];
  return step === undefined ? undefined : from + step;
}

/** @param ink draws around a point, given in cells */
function drawByPointer(element: HTMLElement, ink: (x: number, y: number) => void): void {
  let pen: readonly [x: number, y: number] | undefined;
  const draw = (event: PointerEvent): void => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const [x, y] = [((event.clientX - left) / width) * SIDE, ((event.clientY - top) / height) * SIDE];
    const [fromX, fromY] = pen ?? [x, y];
    const steps = Math.ceil(4 * Math.hypot(x - fromX, y - fromY)) || 1;
    for (let step = 1; step <= steps; step++) {
      ink(fromX + ((x - fromX) * step) / steps, fromY + ((y - fromY) * step) / steps);
    }
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
