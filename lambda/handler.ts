import './scorer/early.ts';

// All that a module imports is compiled before any of it runs: the rest is imported now, and loads beside that thread.
const { startFunction } = await import('./hosts/createHandler.ts');

/** The Lambda entry. A wrong configuration or a broken model fails here, at cold start. */
export const handler = await startFunction(process.env);
