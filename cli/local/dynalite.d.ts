declare module 'dynalite' {
  import type { Server } from 'node:http';

  /** Creates a DynamoDB server in memory. It does not listen yet. */
  export default function dynalite(options?: { readonly createTableMs?: number }): Server;
}
