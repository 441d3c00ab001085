import { byId, count, duration, make, percent, setText, things } from './common.js';
import { barOf, essenceOf, prettyOf, whyOf } from './lists.js';

/** @typedef {import('../wire.ts').ModelSeen} ModelSeen */

/**
 * What can be sent: a digit and a ticket where their models are, and any request.
 *
 * @param {readonly ModelSeen[]} models
 * @param {(messageId: string) => void} onSent
 * @param {(error: string) => void} onRefused
 */
export function offerWays(models, onSent, onRefused) {
  /** @type {Record<string, (() => string) | undefined>} the body of a message, by what is sent */
  const bodies = { digit: digitWay(models), ticket: ticketWay(models), request: requestWay(models) };
  const ways = [...document.getElementsByName('way')].filter((way) => way instanceof HTMLInputElement);
  for (const way of ways) {
    const form = byId(`send-${way.value}`);
    const body = bodies[way.value];
    if (body === undefined) {
      way.parentElement?.remove();
      form.remove();
      continue;
    }
    way.addEventListener('change', () => {
      for (const other of document.forms) other.hidden = other !== form;
    });
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      try {
        const { messageId } = await post('/ask', { body: body() });
        onSent(String(messageId));
      } catch (error) {
        onRefused(error instanceof Error ? error.message : String(error));
      }
    });
  }
  ways.find(({ isConnected }) => isConnected)?.click();
}

/** @param {readonly ModelSeen[]} models */
function digitWay(models) {
  const model = models.find(({ name, inputs }) => name === 'digits' && inputs[0]?.shape[1] === 64);
  const [input] = model?.inputs ?? [];
  if (model === undefined || input === undefined) return undefined;
  const digit = createDigit(byId('digit'));
  const data = JSON.parse(model.sample ?? '{}').inputs?.[0]?.data;
  if (Array.isArray(data)) digit.set(data);
  byId('send-digit').addEventListener('reset', () => digit.set([]));
  const { name, datatype } = input;
  return () =>
    JSON.stringify({ model_name: model.name, inputs: [{ name, datatype, shape: [1, 64], data: digit.values() }] });
}

/** @param {readonly ModelSeen[]} models */
function ticketWay(models) {
  const model = models.find(({ name, hasTransform }) => name === 'tickets' && hasTransform);
  if (model === undefined) return undefined;
  const text = byId('ticket', HTMLTextAreaElement);
  text.value = String(JSON.parse(model.sample ?? '{}').text ?? '');
  return () => JSON.stringify({ model_name: model.name, text: text.value });
}

/** @param {readonly ModelSeen[]} models */
function requestWay(models) {
  const text = byId('request', HTMLTextAreaElement);
  const samples = models.flatMap(({ name, sample }) => (sample === undefined ? [] : [{ name, sample }]));
  text.value = samples[0]?.sample ?? '{"instances":[]}';
  for (const { name, sample } of samples) {
    const take = () => {
      text.value = sample;
    };
    byId('samples').append(make('button', { type: 'button', onclick: take }, `Sample of ${name}`));
  }
  return () => text.value;
}

/** @typedef {import('../wire.ts').AnswerSeen} AnswerSeen */

const MAX_ANSWERS = 16;

/**
 * The answer to what was sent last, and the micro-batch that it rode in.
 *
 * @param {HTMLElement} place
 */
export function createAnswer(place) {
  let awaited = '';
  /** @type {Map<string, AnswerSeen>} the newest, some of which are other pages' */
  const answers = new Map();
  const show = () => {
    const answer = answers.get(awaited);
    place.replaceChildren(
      ...(answer === undefined ? [make('p', {}, 'Sent. It waits for its batch.')] : partsOf(answer)),
    );
  };
  return {
    /** @param {string} messageId */
    sent(messageId) {
      awaited = messageId;
      show();
    },
    /** @param {string} sentence */
    refused(sentence) {
      place.replaceChildren(make('p', { class: 'refused' }, sentence));
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
    const lead = make('p', { class: 'lead' }, 'Not answered: it goes back to the queue.');
    return [lead, make('p', {}, rode, ' ', times), bar, why];
  }
  const label = 'The whole answer';
  const whole = make('pre', { role: 'region', 'aria-label': label, tabindex: 0 }, prettyOf(result.body));
  return [
    make('p', { class: 'lead' }, essenceOf(result.body) ?? 'Answered.'),
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

/**
 * A picture of 8 × 8 grey values, 0 to 16, to be drawn by mouse, finger or keyboard.
 *
 * @param {HTMLElement} element
 * @returns {{ values(): number[], set(values: readonly number[]): void }}
 */
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

  /**
   * @param {number} index
   * @param {number} value
   */
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
  /**
   * @param {number} x
   * @param {number} y
   */
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
    set: (given) => {
      for (const index of values.keys()) put(index, given[index] ?? 0);
    },
  };
}

/**
 * The cell that a key leads to, within the picture.
 *
 * @param {string} key
 * @param {number} from
 */
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
  const refused = byId('refused');
  /**
   * @param {string} path
   * @param {object} body
   */
  const set = async (path, body) => {
    try {
      await post(path, body);
      setText(refused, '');
    } catch (error) {
      setText(refused, error instanceof Error ? error.message : String(error));
    }
  };
  const load = byId('load', HTMLInputElement);
  const model = byId('load-model', HTMLSelectElement);
  const size = byId('batch-size', HTMLInputElement);
  const windowSeconds = byId('window', HTMLInputElement);
  /** @param {number} perSecond */
  const sayLoad = (perSecond) => {
    const said = perSecond === 0 ? 'none' : `${count(perSecond)} a second`;
    setText(byId('load-said'), said);
    load.setAttribute('aria-valuetext', said);
  };
  const chosen = () => LOADS[Number(load.value)] ?? 0;
  load.addEventListener('input', () => sayLoad(chosen()));
  for (const input of [load, model]) {
    input.addEventListener('change', () => set('/load', { perSecond: chosen(), model: model.value }));
  }
  for (const input of [size, windowSeconds]) {
    const limits = () => ({ batchSize: numberOf(size), windowSeconds: numberOf(windowSeconds) });
    input.addEventListener('change', () => set('/batching', limits()));
  }
  return ({ settings, loadModels }) => {
    if (model.children.length !== loadModels.length) {
      model.replaceChildren(...loadModels.map((name) => make('option', {}, name)));
    }
    const { perSecond, heldBack } = settings.load;
    if (load.parentElement !== null) load.parentElement.hidden = loadModels.length === 0;
    if (model.parentElement !== null) model.parentElement.hidden = loadModels.length < 2;
    const step = LOADS.findLastIndex((one) => one <= perSecond);
    unlessTouched(load, String(Math.max(0, step)));
    unlessTouched(model, settings.load.model);
    if (document.activeElement !== load) sayLoad(perSecond);
    unlessTouched(size, String(settings.batchSize));
    unlessTouched(windowSeconds, String(settings.windowSeconds));
    setText(byId('held'), heldBack === undefined ? '' : `Held back: ${heldBack}.`);
  };
}

/**
 * What somebody is changing is left alone.
 *
 * @param {HTMLInputElement | HTMLSelectElement} input
 * @param {string} value
 */
function unlessTouched(input, value) {
  if (document.activeElement !== input && input.value !== value) input.value = value;
}

/**
 * What is no number is sent as it is, to be refused in words.
 *
 * @param {HTMLInputElement} input
 */
function numberOf({ value }) {
  return value.trim() === '' ? null : Number(value);
}

/**
 * Asks the server for something.
 *
 * @param {string} path
 * @param {object} body
 * @returns {Promise<Record<string, unknown>>}
 * @throws Error with the sentence that it was refused with
 */
async function post(path, body) {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}
