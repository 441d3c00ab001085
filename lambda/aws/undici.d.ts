/** What the package's index gives as `Agent`, without the rest. */
declare module 'undici/lib/dispatcher/agent.js' {
  export { Agent as default } from 'undici';
}
