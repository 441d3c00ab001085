import { byId, count, duration, essenceOf, make, percent, prettyOf, setText, things } from './common.js';
import { barOf, whyOf } from './lists.js';

/** @typedef {import('../wire.ts').ModelSeen} ModelSeen */
/** @typedef {{ readonly form: HTMLElement, readonly body: () => string }} Way what is filled in, and the body of a message made of it */

/**
 * What can be sent: for each model with a sample a form made of that, and any request.
 *
 * @param {readonly ModelSeen[]} models @param {(messageId: string) => void} onSent @param {(error: string) => void} onRefused
 */
export function offerWays(models, onSent, onRefused) {
  const text = byId('request', HTMLTextAreaElement);
  let shown = () => '{"instances":[]}';
  /** @param {string} label @param {Way} way */
  const offer = (label, { form, body }) => {
    const radio = make('input', { type: 'radio', name: 'way' });
    byId('ways').append(make('label', {}, radio, ` ${label}`));
    radio.addEventListener('change', () => {
      for (const other of byId('ask').querySelectorAll('form')) other.hidden = other !== form;
      if (form.contains(text)) {
        try {
          text.value = prettyOf(shown());
        } catch {
          // What the form holds makes no request: the last one stays.
        }
      } else shown = body;
    });
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      try {
        onSent(String((await post('/ask', { body: body() })).messageId));
      } catch (error) {
        onRefused(error instanceof Error ? error.message : String(error));
      }
    });
    return radio;
  };
  // The first of a name is the version that requests mean that name none.
  const named = models.filter(({ name }, index) => models.findIndex((one) => one.name === name) === index);
  const ways = named.flatMap((model) =>
    model.sample === undefined ? [] : [offer(model.name, wayOf(model, model.sample))],
  );
  ways.push(offer('Any request', { form: byId('send-request'), body: () => text.value }));
  ways[0]?.click();
}

/** @param {ModelSeen} model @param {string} sample @returns {Way} */
function wayOf(model, sample) {
  const request = JSON.parse(sample);
  const isDigit = model.name === 'digits' && model.inputs.length === 1 && model.inputs[0]?.shape[1] === SIDE * SIDE;
  if (isDigit) {
    const digit = createDigit(byId('digit'));
    const [input] = request.inputs;
    digit.set(input.data);
    byId('send-digit').addEventListener('reset', () => digit.set([]));
    const body = () => JSON.stringify({ ...request, id: undefined, inputs: [{ ...input, data: digit.values() }] });
    return { form: byId('send-digit'), body };
  }
  const ofTensors = Array.isArray(request.inputs) && !model.hasTransform;
  const fields = ofTensors
    ? request.inputs.map((/** @type {Tensor} */ input) => tensorField(input, model))
    : Object.keys(request)
        .filter((key) => !/^(id|model_name|model_version)$/.test(key))
        .map((key) => keyField(key, request[key]));
  const buttons = make('div', { class: 'buttons' }, make('button', { type: 'submit', class: 'primary' }, 'Send'));
  const parts = fields.map((/** @type {Field} */ { element }) => element);
  const form = make('form', { hidden: true }, make('div', { class: 'fields' }, ...parts), buttons);
  byId('ask').append(form);
  const body = () => {
    const texts = fields.map((/** @type {Field} */ { json }) => json());
    const held = ofTensors ? [`"inputs":[${texts.join(',')}]`] : texts;
    return `{${[`"model_name":${JSON.stringify(model.name)}`, ...held].join(',')}}`;
  };
  return { form, body };
}

/** @typedef {{ readonly element: HTMLElement, readonly json: () => string }} Field its part of a request; throws an Error in the form's words */
/** @typedef {{ readonly name: string, readonly datatype: string, readonly shape: number[], readonly data: unknown[] }} Tensor */

/** A label with what is typed below it. @param {string} name @param {string} note @param {string} value @param {boolean} isLong */
function labelled(name, note, value, isLong) {
  const input = isLong ? make('textarea', { class: 'value', rows: 4 }) : make('input', { class: 'value' });
  input.value = value;
  input.spellcheck = false;
  return { element: make('label', { class: 'typed' }, `${name} `, make('small', {}, note), input), input };
}

/**
 * An input of a model: its elements with commas between them, a single text as it is. An open axis fits what is typed.
 *
 * @param {Tensor} tensor of the sample @param {ModelSeen} model @returns {Field}
 */
function tensorField({ name, datatype, shape, data }, { inputs }) {
  const isText = datatype === 'BYTES' && data.length === 1;
  const axes = inputs.find((input) => input.name === name)?.shape ?? shape;
  const shown = isText ? String(data[0]) : data.map((element) => JSON.stringify(element)).join(', ');
  const { element, input } = labelled(name, `${datatype} [${axes.join(', ')}]`, shown, isText || shown.length > 40);
  const open = axes.findLastIndex((axis) => typeof axis === 'string');
  const unit = shape.reduce((all, size, axis) => (axis === open ? all : all * size), 1);
  const json = () => {
    // Sent as it was typed: an INT64 that JavaScript would round is refused in words.
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

/** @param {string} text @param {string} expected @returns {unknown[]} */
function listOf(text, expected) {
  try {
    return JSON.parse(`[${text}]`);
  } catch {
    throw new Error(`${expected}, got ${text.slice(0, 60) || 'nothing'}.`);
  }
}

/** A key of a request of its own form, which a transform takes. @param {string} key @param {unknown} value @returns {Field} */
function keyField(key, value) {
  const isText = typeof value === 'string';
  const { element, input } = labelled(key, isText ? 'text' : 'JSON', isText ? value : JSON.stringify(value), true);
  const json = () => {
    const typed = isText ? JSON.stringify(input.value) : input.value;
    listOf(typed, `${key}: expected JSON`);
    return `${JSON.stringify(key)}:${typed}`;
  };
  return { element, json };
}

/** @typedef {import('../wire.ts').AnswerSeen} AnswerSeen */

const MAX_ANSWERS = 16;

/** The answer to what was sent last, and the micro-batch that it rode in. @param {HTMLElement} place */
export function createAnswer(place) {
  let awaited = '';
  /** @type {Map<string, AnswerSeen>} the newest, some of which are other pages' */
  const answers = new Map();
  const show = () => {
    const answer = answers.get(awaited);
    place.replaceChildren(...(answer ? partsOf(answer) : [make('p', {}, 'Sent. It waits for its batch.')]));
  };
  return {
    /** @param {string} messageId */
    sent(messageId) {
      awaited = messageId;
      show();
    },
    /** @param {string} sentence */
    refused(sentence) {
      place.replaceChildren(make('p', { class: 'lead error' }, sentence));
    },
    /** Answers may come before it is known what was sent. @param {AnswerSeen} answer */
    came(answer) {
      answers.set(answer.messageId, answer);
      const [oldest = ''] = answers.keys();
      if (answers.size > MAX_ANSWERS) answers.delete(oldest);
      if (answer.messageId === awaited) show();
    },
  };
}

/** @param {AnswerSeen} answer */
function partsOf({ result, invocation, microBatch, waitedMs, answeredMs }) {
  const ran = microBatch === undefined ? undefined : invocation.microBatches[microBatch];
  const number = count(invocation.number);
  const rode =
    ran === undefined
      ? `It was in invocation #${number}, and in none of its micro-batches.`
      : `It rode in micro-batch ${(microBatch ?? 0) + 1} of invocation #${number}, ${sizeOf(ran)}, run in ${duration(ran.runMs)} (closed: ${ran.closedBecause}).`;
  const times = `It waited ${duration(waitedMs)} for its invocation${answeredMs === undefined ? '.' : `, and was answered ${duration(answeredMs)} after it was sent.`}`;
  const bar = make('p', { class: 'track' }, barOf(invocation, microBatch));
  const why = make('p', { class: 'aside' }, whyOf(invocation));
  if (result === undefined) {
    const lead = make('p', { class: 'lead error' }, 'Not answered: it goes back to the queue.');
    return [lead, make('p', {}, rode, ' ', times), bar, why];
  }
  const label = 'The whole answer';
  const whole = make('pre', { role: 'region', 'aria-label': label, tabindex: 0 }, prettyOf(result.body));
  return [
    make('p', { class: result.isError ? 'lead error' : 'lead' }, essenceOf(result.body) ?? 'Answered.'),
    make('p', {}, rode, ' ', times),
    bar,
    why,
    make('details', { class: 'more' }, make('summary', {}, label), whole),
  ];
}

/** @param {import('../wire.ts').MicroBatchSeen} microBatch */
function sizeOf({ rows, requests, paddingShare }) {
  const of = rows === requests ? things(rows, 'row') : `${things(rows, 'row')} of ${things(requests, 'request')}`;
  return paddingShare > 0 ? `${of} and ${percent(paddingShare)} padding` : of;
}

const SIDE = 8;
const FULL = 16;
/** Of the pen, in cells, and how soft its edge is. */
const RADIUS = 1.3;
const SHARPNESS = 1.6;

/** A picture of 8 × 8 grey values, 0 to 16, to be drawn by mouse, finger or keyboard. @param {HTMLElement} element */
function createDigit(element) {
  const values = new Array(SIDE * SIDE).fill(0);
  let current = 0;
  const cells = values.map((_, index) =>
    make('div', { role: 'gridcell', class: 'cell', tabindex: index === 0 ? 0 : -1 }),
  );
  element.setAttribute('role', 'grid');
  element.setAttribute('aria-label', 'Digit, 8 by 8');
  element.setAttribute('aria-describedby', 'digit-help');
  for (let row = 0; row < SIDE; row++) {
    element.append(make('div', { role: 'row' }, ...cells.slice(row * SIDE, (row + 1) * SIDE)));
  }

  /** @param {number} index @param {number} value */
  const put = (index, value) => {
    const cell = cells[index];
    if (cell === undefined) return;
    values[index] = value;
    cell.style.setProperty('--level', `${(100 * value) / FULL}%`);
    cell.setAttribute(
      'aria-label',
      `row ${Math.floor(index / SIDE) + 1}, column ${(index % SIDE) + 1}: ${value} of ${FULL}`,
    );
  };
  /** @param {number} index */
  const moveTo = (index) => {
    cells[current]?.setAttribute('tabindex', '-1');
    current = index;
    cells[current]?.setAttribute('tabindex', '0');
    cells[current]?.focus();
  };
  element.addEventListener('keydown', (event) => {
    const next = nextCell(event.key, current);
    if (next !== undefined) moveTo(next);
    else if (event.key === ' ') put(current, values[current] === 0 ? FULL : 0);
    else return;
    event.preventDefault();
  });
  /** @type {readonly [number, number] | undefined} where the pen was, in cells */
  let pen;
  /** @param {number} x @param {number} y */
  const ink = (x, y) => {
    for (const [index, before] of values.entries()) {
      const distance = Math.hypot((index % SIDE) + 0.5 - x, Math.floor(index / SIDE) + 0.5 - y);
      const value = Math.round(FULL * Math.min(1, Math.max(0, SHARPNESS * (1 - distance / RADIUS))));
      if (value > before) put(index, value);
    }
  };
  const draw = (/** @type {PointerEvent} */ event) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * SIDE;
    const y = ((event.clientY - top) / height) * SIDE;
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
  for (const index of values.keys()) put(index, 0);
  return {
    values: () => [...values],
    /** @param {readonly number[]} given */
    set(given) {
      for (const index of values.keys()) put(index, given[index] ?? 0);
    },
  };
}

/** The cell that a key leads to, within the picture. @param {string} key @param {number} from */
function nextCell(key, from) {
  const column = from % SIDE;
  /** @type {Readonly<Record<string, number>>} */
  const steps = {
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

/** @typedef {import('../wire.ts').State} State */

const LOADS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

/** @returns {(state: State) => void} shows what is set */
export function createKnobs() {
  const load = byId('load', HTMLInputElement);
  const model = byId('load-model', HTMLSelectElement);
  const size = byId('batch-size', HTMLInputElement);
  const windowSeconds = byId('window', HTMLInputElement);
  const chosen = () => LOADS[Number(load.value)] ?? 0;
  /** @param {number} perSecond */
  const sayLoad = (perSecond) => {
    const said = perSecond === 0 ? 'none' : `${count(perSecond)} a second`;
    setText(byId('load-said'), said);
    load.setAttribute('aria-valuetext', said);
  };
  load.addEventListener('input', () => sayLoad(chosen()));
  const showLoad = createSetting('/load', [load, model], byId('load-refused'), () => ({
    perSecond: chosen(),
    model: model.value,
  }));
  const showLimits = createSetting('/batching', [size, windowSeconds], byId('refused'), () => ({
    batchSize: wholeNumber('Batch size', size),
    windowSeconds: wholeNumber('Window', windowSeconds),
  }));
  return ({ settings, loadModels }) => {
    if (model.children.length !== loadModels.length) {
      model.replaceChildren(...loadModels.map((name) => make('option', {}, name)));
    }
    const { perSecond, heldBack } = settings.load;
    byId('no-load').hidden = loadModels.length > 0;
    if (load.parentElement !== null) load.parentElement.hidden = loadModels.length === 0;
    if (model.parentElement !== null) model.parentElement.hidden = loadModels.length < 2;
    const step = LOADS.findLastIndex((one) => one <= perSecond);
    showLoad([String(Math.max(0, step)), settings.load.model]);
    if (document.activeElement !== load) sayLoad(perSecond);
    showLimits([String(settings.batchSize), String(settings.windowSeconds)]);
    setText(byId('held'), heldBack === undefined ? '' : `Held back: ${heldBack}.`);
  };
}

/**
 * What some inputs set together, shown by what is returned. They keep what was typed until the server has taken it; of
 * several answers the one to what was asked last counts, and `refused` says why it was not taken.
 *
 * @param {string} path @param {readonly (HTMLInputElement | HTMLSelectElement)[]} inputs @param {HTMLElement} refused
 * @param {() => object} read what is asked for; throws an Error with a sentence
 */
function createSetting(path, inputs, refused, read) {
  let asked = 0;
  let taken = 0;
  const ask = async () => {
    asked += 1;
    const turn = asked;
    let why = '';
    try {
      await post(path, read());
    } catch (error) {
      why = error instanceof Error ? error.message : String(error);
    }
    if (turn !== asked) return;
    if (why === '') taken = turn;
    setText(refused, why);
  };
  for (const input of inputs) input.addEventListener('change', ask);
  return (/** @type {readonly string[]} */ values) => {
    if (taken !== asked) return;
    for (const [index, input] of inputs.entries()) {
      const value = values[index] ?? '';
      if (document.activeElement !== input && input.value !== value) input.value = value;
    }
  };
}

/** @param {string} label @param {HTMLInputElement} input */
function wholeNumber(label, { value, min, max, validity }) {
  if (validity.valid && value !== '') return Number(value);
  const range = `${count(Number(min))} to ${count(Number(max))}`;
  throw new Error(`${label}: expected a whole number from ${range}, got ${value || 'nothing'}.`);
}

/** What the server calls them, as the form does. */
const FORM_WORDS = { 'windowSeconds:': 'Window:', windowSeconds: 'the window', batchSize: 'batch size' };

/**
 * Asks the server for something. @throws Error with the sentence that it was refused with
 *
 * @param {string} path @param {object} body @returns {Promise<Record<string, unknown>>}
 */
export async function post(path, body) {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) }).catch(() => undefined);
  if (response === undefined) throw new Error('npm run dev does not answer: nothing was sent.');
  const answer = await response.json();
  if (response.ok) return answer;
  const said = Object.entries(FORM_WORDS).reduce((text, [from, to]) => text.replaceAll(from, to), String(answer.error));
  throw new Error(said);
}
