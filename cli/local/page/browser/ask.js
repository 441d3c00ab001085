import { post } from './api.js';
import { createDigit } from './digit.js';
import { make } from './dom.js';

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
