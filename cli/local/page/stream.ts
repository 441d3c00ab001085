import type { ServerResponse } from 'node:http';
import type { Events } from './wire.ts';

/** The pages that are open, each of which reads a stream of server-sent events. */
export interface Stream {
  /** @returns false where too many are open already; nothing was written then */
  open(response: ServerResponse, hello: Events['hello']): boolean;
  tell<Name extends keyof Events>(name: Name, data: Events[Name]): void;
  isWatched(): boolean;
  close(): void;
}

export interface StreamOptions {
  /** The first page was opened, or the last one closed. */
  readonly onWatched: (isWatched: boolean) => void;
}

/** @see https://html.spec.whatwg.org/multipage/server-sent-events.html */
export const STREAM_HEADERS = { 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' };
/** A browser opens six connections to a server at the most: one is left for what its pages ask. */
export const MOST_PAGES = 5;
/** What may lie unread for one page; one that reads no faster is dropped, and opens a new stream by itself. */
const MOST_UNREAD_BYTES = 4 * 1024 * 1024;

export function createStream({ onWatched }: StreamOptions): Stream {
  const pages = new Set<ServerResponse>();
  const send = (page: ServerResponse, text: string): void => {
    page.write(text);
    if (page.writableLength > MOST_UNREAD_BYTES) page.destroy();
  };
  return {
    open(response, hello) {
      if (pages.size >= MOST_PAGES) return false;
      pages.add(response);
      if (pages.size === 1) onWatched(true);
      response.on('close', () => {
        if (pages.delete(response) && pages.size === 0) onWatched(false);
      });
      response.writeHead(200, STREAM_HEADERS);
      send(response, eventText('hello', hello));
      return true;
    },
    tell(name, data) {
      if (pages.size === 0) return;
      const text = eventText(name, data);
      for (const page of pages) send(page, text);
    },
    isWatched: () => pages.size > 0,
    close() {
      for (const page of pages) page.destroy();
    },
  };
}

/** JSON has no line breaks of its own, so it is one line of data. */
function eventText(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
