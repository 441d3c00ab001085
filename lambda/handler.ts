import './scorer/early.ts';

// A static import would be compiled before any code runs. This one loads beside the scorer's process.
const { startFunction } = await import('./hosts/createHandler.ts');

/** Lambda entry. A wrong configuration or a broken model fails here, at cold start. */
export const handler = await startFunction(process.env);
