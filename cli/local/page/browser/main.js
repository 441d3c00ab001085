import { createCharts, EFFECTS, FLOW } from './charts.js';
import { addNews, addTick, byId, setText, stateOf } from './common.js';
import { createAnswer, createAsk, createKnobs } from './controls.js';
import { createFacts, createInvocations, createModels, createResults } from './lists.js';

/** @type {import('./common.js').State | undefined} */
let state;
let isPaused = false;
let isConnected = false;

const answer = createAnswer(byId('answer'));
const offer = createAsk(byId('ask'), answer.sent, answer.refused);
const showKnobs = createKnobs(byId('controls'), byId('refused'));
const parts = [
  createFacts(byId('facts')),
  createCharts(byId('effects'), EFFECTS),
  createCharts(byId('figures'), FLOW),
  createInvocations(byId('invocation-list')),
  createResults({ results: byId('result-list'), errors: byId('error-list'), codes: byId('codes') }),
  createModels(byId('model-list')),
];

function show() {
  const status = isConnected
    ? isPaused
      ? 'Paused: what comes is shown later'
      : 'Live'
    : 'Not connected: is npm run dev still there?';
  setText(byId('connection'), status);
  if (state === undefined) return;
  showKnobs(state);
  if (isPaused) return;
  for (const part of parts) part(state);
}

byId('pause').addEventListener('click', (event) => {
  isPaused = !isPaused;
  if (event.currentTarget instanceof HTMLElement) event.currentTarget.setAttribute('aria-pressed', String(isPaused));
  show();
});

listen(
  {
    hello(hello) {
      state = stateOf(hello);
      answer.spell(hello.closed);
      offer(hello.models);
      show();
    },
    tick(tick) {
      if (state !== undefined) addTick(state, tick);
      show();
    },
    news(news) {
      if (state === undefined) return;
      addNews(state, news);
      // Under load, lists change once a second: nobody could read them else.
      if (state.settings.load.perSecond === 0) show();
    },
    settings(settings) {
      if (state !== undefined) state.settings = settings;
      show();
    },
    answer: answer.came,
  },
  (isOpen) => {
    isConnected = isOpen;
    show();
  },
);

/** @typedef {import('../wire.ts').Events} Events */

/**
 * Listens to what the stack does, and again where the connection broke.
 *
 * @param {{ [Name in keyof Events]: (data: Events[Name]) => void }} listeners
 * @param {(isOpen: boolean) => void} onConnection
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
