declare module 'dynalite' {
  import type { Server } from 'node:http';

  /** A DynamoDB server in memory, not listening yet. */
  export default function dynalite(options?: { readonly createTableMs?: number }): Server;
}
