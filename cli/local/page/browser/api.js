/**
 * Asks the server for something.
 *
 * @param {string} path
 * @param {object} body
 * @returns {Promise<Record<string, unknown>>}
 * @throws Error with the sentence that it was refused with
 */
export async function post(path, body) {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** @typedef {import('../wire.ts').Events} Events */

/**
 * Listens to what the stack does, and again where the connection broke.
 *
 * @param {{ [Name in keyof Events]: (data: Events[Name]) => void }} listeners
 * @param {(isOpen: boolean) => void} onConnection
 */
export function listen(listeners, onConnection) {
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
