/** The `Agent` of undici, importable without the rest of the package. */
declare module 'undici/lib/dispatcher/agent.js' {
  export { Agent as default } from 'undici';
}
