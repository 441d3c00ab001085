import { createCharts } from './charts.js';
import { byId, setText, timeOf } from './common.js';
import { createAnswer, createKnobs, offerWays, post } from './controls.js';
import { createEvents, createFacts, createInvocations, createJobs, createModels, createResults } from './lists.js';

/** @type {import('../wire.ts').State | undefined} */
let state;
let isPaused = false;

const answer = createAnswer(byId('answer'));
const showKnobs = createKnobs();
const parts = [
  createFacts(byId('facts')),
  createCharts(byId('figures')),
  createJobs(byId('job-list'), async (job) => {
    const why = await post('/cancel', { job }).then(
      () => '',
      ({ message }) => message,
    );
    setText(byId('job-refused'), why);
  }),
  createEvents(byId('event-list')),
  createInvocations(byId('invocation-list')),
  createResults({ results: byId('result-list'), errors: byId('error-list'), codes: byId('codes') }),
  createModels(byId('model-list')),
];

function show() {
  if (state === undefined) return;
  showKnobs(state);
  if (isPaused) return;
  for (const part of parts) part(state);
}

/** Says once that nothing comes any more, and greys what is old. @param {boolean} isOpen */
function sayConnection(isOpen) {
  setText(byId('connection'), isOpen ? (isPaused ? 'Paused: what comes is shown later' : 'Live') : '');
  const root = document.documentElement;
  if (isOpen !== root.classList.contains('gone')) return;
  root.classList.toggle('gone', !isOpen);
  for (const control of document.querySelectorAll('button, input, select, textarea'))
    control.toggleAttribute('disabled', !isOpen);
  byId('gone').hidden = isOpen;
  setText(byId('gone-since'), state === undefined ? '' : ` What is below is as it was at ${timeOf(Date.now())}.`);
}

byId('pause').addEventListener('click', (event) => {
  isPaused = !isPaused;
  if (event.currentTarget instanceof HTMLElement) event.currentTarget.setAttribute('aria-pressed', String(isPaused));
  sayConnection(true);
  show();
});

/** @param {import('../wire.ts').State} state */
function samplesOf({ models }) {
  return JSON.stringify(models.map(({ name, sample }) => [name, sample]));
}

listen(
  {
    state(newest) {
      if (state === undefined) {
        offerWays(newest.models, answer.sent, answer.refused);
        for (const place of document.querySelectorAll('.endpoint')) setText(place, newest.endpoint);
      }
      // The stack was started anew, with other models.
      else if (samplesOf(newest) !== samplesOf(state)) location.reload();
      state = newest;
      show();
    },
    answer: answer.came,
  },
  sayConnection,
);

/** @typedef {import('../wire.ts').Events} Events */

/**
 * Listens to what the stack does, and again where the connection broke.
 *
 * @param {{ [Name in keyof Events]: (data: Events[Name]) => void }} listeners @param {(isOpen: boolean) => void} onConnection
 */
function listen(listeners, onConnection) {
  const source = new EventSource('/events');
  for (const [name, listener] of Object.entries(listeners)) {
    source.addEventListener(name, (event) => {
      /** @type {(data: unknown) => void} */ (listener)(JSON.parse(event.data));
    });
  }
  source.onopen = () => onConnection(true);
  source.onerror = () => {
    onConnection(false);
    // A browser gives up where the server refused.
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => listen(listeners, onConnection), 2000);
  };
}
