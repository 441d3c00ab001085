import { count, duration, make, percent, setText, things } from './common.js';
import { barOf, essenceOf, prettyOf, whyOf } from './lists.js';

/** @typedef {import('../wire.ts').ModelSeen} ModelSeen */
/**
 * What can be sent: its form's content around the button, and the message's body.
 *
 * @typedef {{ readonly name: string, readonly build: (send: HTMLElement) => HTMLElement, readonly body: () => string }} Way
 */

/**
 * What can be sent: a digit and a ticket where their models are, and any request.
 *
 * @param {HTMLElement} place
 * @param {(messageId: string) => void} onSent
 * @param {(error: string) => void} onRefused
 * @returns {(models: readonly ModelSeen[]) => void} offers what suits the models
 */
export function createAsk(place, onSent, onRefused) {
  let offered = '';
  return (models) => {
    const key = JSON.stringify(models.map(({ name, sample }) => [name, sample]));
    if (key === offered) return;
    offered = key;
    const ways = waysOf(models);
    const forms = ways.map(({ body, build }, index) => {
      const send = make('button', { type: 'submit', class: 'primary' }, 'Send');
      const form = make('form', { hidden: index > 0 }, build(send));
      form.addEventListener('submit', async (event) => {
        event.preventDefault();
        try {
          const { messageId } = await post('/ask', { body: body() });
          onSent(String(messageId));
        } catch (error) {
          onRefused(error instanceof Error ? error.message : String(error));
        }
      });
      return form;
    });
    const choices = ways.map(({ name }, index) => {
      const id = `way-${index}`;
      const radio = make('input', { type: 'radio', name: 'way', id, checked: index === 0 });
      radio.addEventListener('change', () => {
        for (const [other, form] of forms.entries()) form.hidden = other !== index;
      });
      return make('label', { for: id }, radio, ` ${name}`);
    });
    place.replaceChildren(
      make('fieldset', { class: 'ways' }, make('legend', {}, 'What to send'), ...choices),
      ...forms,
    );
  };
}

/**
 * @param {readonly ModelSeen[]} models
 * @returns {Way[]}
 */
function waysOf(models) {
  const digits = models.find(({ name, inputs }) => name === 'digits' && inputs[0]?.shape[1] === 64);
  const tickets = models.find(({ name, hasTransform }) => name === 'tickets' && hasTransform);
  return [
    ...(digits === undefined ? [] : [digitWay(digits)]),
    ...(tickets === undefined ? [] : [ticketWay(tickets)]),
    requestWay(models),
  ];
}

/**
 * @param {ModelSeen} model
 * @returns {Way}
 */
function digitWay({ name, inputs, sample }) {
  const digit = createDigit();
  const data = JSON.parse(sample ?? '{}').inputs?.[0]?.data;
  if (Array.isArray(data)) digit.set(data);
  const clear = make('button', { type: 'button', onclick: () => digit.set([]) }, 'Clear');
  const help = 'Draw by mouse or finger; or move with the arrow keys, and turn a cell on or off with the space bar.';
  return {
    name: 'A digit',
    build: (send) =>
      make(
        'div',
        { class: 'drawing-board' },
        digit.element,
        make(
          'div',
          {},
          make('p', { class: 'aside', id: 'digit-help' }, help),
          make('div', { class: 'buttons' }, send, clear),
        ),
      ),
    body: () =>
      JSON.stringify({
        model_name: name,
        inputs: [{ name: inputs[0]?.name, datatype: inputs[0]?.datatype, shape: [1, 64], data: digit.values() }],
      }),
  };
}

/**
 * @param {ModelSeen} model
 * @returns {Way}
 */
function ticketWay({ name, sample }) {
  const text = make('textarea', { id: 'ticket', rows: 4, maxlength: 10_000 });
  text.value = String(JSON.parse(sample ?? '{}').text ?? '');
  return {
    name: 'A ticket',
    build: (send) =>
      make(
        'div',
        { class: 'field' },
        make('label', { for: 'ticket' }, 'Text of the ticket'),
        text,
        make('div', { class: 'buttons' }, send),
      ),
    body: () => JSON.stringify({ model_name: name, text: text.value }),
  };
}

/**
 * @param {readonly ModelSeen[]} models
 * @returns {Way}
 */
function requestWay(models) {
  const text = make('textarea', { id: 'request', class: 'code', rows: 8, maxlength: 60_000, spellcheck: 'false' });
  const samples = models.flatMap(({ name, sample }) => (sample === undefined ? [] : [{ name, sample }]));
  text.value = samples[0]?.sample ?? '{"instances":[]}';
  const buttons = samples.map(({ name, sample }) =>
    make(
      'button',
      {
        type: 'button',
        onclick: () => {
          text.value = sample;
        },
      },
      `Sample of ${name}`,
    ),
  );
  return {
    name: 'Any request',
    build: (send) =>
      make(
        'div',
        { class: 'field' },
        make('label', { for: 'request' }, 'Body of the message'),
        text,
        make('div', { class: 'buttons' }, send, ...buttons),
      ),
    body: () => text.value,
  };
}

/** @typedef {import('../wire.ts').AnswerSeen} AnswerSeen */
/** @typedef {import('../wire.ts').ClosedWords} ClosedWords */

const MOST_EARLY = 16;

/**
 * The answer to what was sent last, and the micro-batch that it rode in.
 *
 * @param {HTMLElement} place
 */
export function createAnswer(place) {
  let awaited = '';
  /** @type {Map<string, AnswerSeen>} those that came before it was known what was sent */
  const early = new Map();
  /** @type {ClosedWords} */
  let words = { batch: {}, microBatch: {} };
  /** @param {AnswerSeen} answer that may be another page's */
  const keepEarly = (answer) => {
    early.set(answer.messageId, answer);
    for (const oldest of early.keys()) if (early.size > MOST_EARLY) early.delete(oldest);
  };
  /** @param {AnswerSeen} answer */
  const show = (answer) => place.replaceChildren(...partsOf(answer, words));
  return {
    /** @param {ClosedWords} closed */
    spell(closed) {
      words = closed;
    },
    /** @param {string} messageId */
    sent(messageId) {
      awaited = messageId;
      const answer = early.get(messageId);
      early.clear();
      if (answer !== undefined) show(answer);
      else place.replaceChildren(make('p', {}, 'Sent. It waits for its batch.'));
    },
    /** @param {string} sentence */
    refused(sentence) {
      place.replaceChildren(make('p', { class: 'refused' }, sentence));
    },
    /** @param {AnswerSeen} answer */
    came(answer) {
      if (answer.messageId === awaited) show(answer);
      else keepEarly(answer);
    },
  };
}

/**
 * @param {AnswerSeen} answer
 * @param {ClosedWords} words
 */
function partsOf(answer, words) {
  const { result, invocation, microBatch, waitedMs, answeredMs } = answer;
  const ran = microBatch === undefined ? undefined : invocation.microBatches[microBatch];
  const rode =
    ran === undefined
      ? `It was in invocation #${count(invocation.number)}, and in none of its micro-batches.`
      : `It rode in micro-batch ${(microBatch ?? 0) + 1} of invocation #${count(invocation.number)}, ${sizeOf(ran)}, run in ${duration(ran.runMs)} (closed: ${words.microBatch[ran.closedBecause] ?? ''}).`;
  const times = `It waited ${duration(waitedMs)} for its invocation${answeredMs === undefined ? '.' : `, and was answered ${duration(answeredMs)} after it was sent.`}`;
  return [
    make(
      'p',
      { class: 'lead' },
      result === undefined ? 'Not answered: it goes back to the queue.' : (essenceOf(result.body) ?? 'Answered.'),
    ),
    make('p', {}, rode, ' ', times),
    make('p', { class: 'track' }, barOf(invocation, microBatch)),
    make('p', { class: 'aside' }, whyOf(invocation, words)),
    ...(result === undefined
      ? []
      : [
          make(
            'details',
            { class: 'more' },
            make('summary', {}, 'The whole answer'),
            make('pre', { role: 'region', 'aria-label': 'The whole answer', tabindex: 0 }, prettyOf(result.body)),
          ),
        ]),
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
 * @returns {{ readonly element: HTMLElement, values(): number[], set(values: readonly number[]): void }}
 */
function createDigit() {
  const values = new Array(SIDE * SIDE).fill(0);
  let current = 0;
  const cells = values.map((_, index) =>
    make('div', { role: 'gridcell', class: 'cell', tabindex: index === 0 ? 0 : -1 }),
  );
  const rows = Array.from({ length: SIDE }, (_, row) =>
    make('div', { role: 'row' }, ...cells.slice(row * SIDE, (row + 1) * SIDE)),
  );
  const element = make(
    'div',
    { class: 'digit', role: 'grid', 'aria-label': 'Digit, 8 by 8', 'aria-describedby': 'digit-help' },
    ...rows,
  );

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
    element,
    values: () => [...values],
    set: (given) => {
      for (const index of values.keys()) put(index, given[index] ?? 0);
    },
  };
}

/**
 * @param {string} key
 * @param {number} from
 */
function nextCell(key, from) {
  const column = from % SIDE;
  if (key === 'ArrowLeft') return column > 0 ? from - 1 : from;
  if (key === 'ArrowRight') return column < SIDE - 1 ? from + 1 : from;
  if (key === 'ArrowUp') return from >= SIDE ? from - SIDE : from;
  if (key === 'ArrowDown') return from < SIDE * (SIDE - 1) ? from + SIDE : from;
  if (key === 'Home') return from - column;
  if (key === 'End') return from - column + SIDE - 1;
  return undefined;
}

/** @typedef {import('../wire.ts').SettingsSeen} SettingsSeen */
/** @typedef {import('./common.js').State} State */

const LOADS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

/**
 * @param {HTMLElement} place
 * @param {HTMLElement} refused where it is said why something was refused
 * @returns {(state: State) => void} shows what is set
 */
export function createKnobs(place, refused) {
  /** @param {() => Promise<unknown>} act */
  const attempt = async (act) => {
    try {
      await act();
      setText(refused, '');
    } catch (error) {
      setText(refused, error instanceof Error ? error.message : String(error));
    }
  };
  const load = make('input', { type: 'range', id: 'load', min: 0, max: LOADS.length - 1, step: 1, value: 0 });
  const loadSaid = make('output', { for: 'load' });
  const held = make('p', { class: 'aside', role: 'status' });
  const model = make('select', { id: 'load-model' });
  const size = make('input', { type: 'number', id: 'batch-size', min: 1, max: 10_000, step: 1, inputmode: 'numeric' });
  const windowSeconds = make('input', {
    type: 'number',
    id: 'window',
    min: 0,
    max: 300,
    step: 1,
    inputmode: 'numeric',
  });
  const sendLoad = () =>
    attempt(() => post('/load', { perSecond: LOADS[Number(load.value)] ?? 0, model: model.value }));
  const sendBatching = () =>
    attempt(() => post('/batching', { batchSize: numberOf(size), windowSeconds: numberOf(windowSeconds) }));
  load.addEventListener('input', () => sayLoad(LOADS[Number(load.value)] ?? 0));
  load.addEventListener('change', sendLoad);
  model.addEventListener('change', sendLoad);
  for (const input of [size, windowSeconds]) input.addEventListener('change', sendBatching);
  /** @param {number} perSecond */
  const sayLoad = (perSecond) => {
    const said = perSecond === 0 ? 'none' : `${count(perSecond)} a second`;
    setText(loadSaid, said);
    load.setAttribute('aria-valuetext', said);
  };
  const loadField = field('load', 'Load', load);
  loadField.querySelector('label')?.append(loadSaid);
  const modelField = field('load-model', 'Samples of', model);
  const expected = make('p', { class: 'aside' });
  place.append(
    make('div', { class: 'fields' }, loadField, modelField),
    held,
    make(
      'div',
      { class: 'fields' },
      field('batch-size', 'Batch size, 1 to 10,000', size),
      field('window', 'Window in seconds, 0 to 300', windowSeconds),
    ),
    expected,
  );
  return ({ settings, loadModels }) => {
    if (model.children.length !== loadModels.length) {
      model.replaceChildren(...loadModels.map((name) => make('option', {}, name)));
    }
    loadField.hidden = loadModels.length === 0;
    modelField.hidden = loadModels.length < 2;
    const { perSecond, heldBack } = settings.load;
    unlessTouched(
      load,
      String(
        Math.max(
          0,
          LOADS.findLastIndex((step) => step <= perSecond),
        ),
      ),
    );
    unlessTouched(model, settings.load.model);
    if (document.activeElement !== load) sayLoad(perSecond);
    unlessTouched(size, String(settings.batchSize));
    unlessTouched(windowSeconds, String(settings.windowSeconds));
    setText(held, heldBack === undefined ? '' : `Held back: ${heldBack}.`);
    setText(expected, expectationOf(settings));
  };
}

/**
 * What size and window come to at this load, by arithmetic.
 *
 * @param {SettingsSeen} settings
 */
function expectationOf({ batchSize, windowSeconds, gathered, load: { perSecond } }) {
  if (windowSeconds === 0) return 'There is no window: what one poll brings is a batch.';
  const longest = `No message waits longer than ${duration(windowSeconds * 1000)} for a batch to fill.`;
  if (perSecond === 0) return longest;
  const came = (perSecond * windowSeconds) / gathered;
  const what =
    came >= batchSize
      ? `each has its ${count(batchSize)} in ${duration((1000 * batchSize * gathered) / perSecond)}, before the window ends.`
      : `each gets ${count(came)} of ${count(batchSize)}, and then the window ends.`;
  return `${longest} ${things(gathered, 'batch', 'batches')} ${gathered === 1 ? 'is' : 'are'} gathered at a time: at ${count(perSecond)} a second ${what}`;
}

/**
 * @param {string} id
 * @param {string} name
 * @param {...Node} parts
 */
function field(id, name, ...parts) {
  return make('div', { class: 'field' }, make('label', { for: id }, name), ...parts);
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
