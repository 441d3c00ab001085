import { beforeAll, describe, expect, it } from '@jest/globals';
import { aMoment, HOSTS, type Host, LOOKUP, lookup, useHosts } from '../helpers/hosts.ts';
import { FAULTS } from '../helpers/strictSqs.ts';

const hosts = useHosts();
const BODIES = Array.from({ length: 40 }, (_, index) => (index % 9 === 4 ? 'not JSON' : lookup(index)));

/** Messages that are deleted and have no result now. */
function lost(host: Host, ids: readonly string[]): string[] {
  const written = new Set(host.written().map(({ message_id }) => message_id));
  const fates = host.fates(ids);
  return ids.filter((id, index) => fates[index] === 'deleted' && !written.has(id));
}

describe('1. Nothing is acknowledged before its result is written', () => {
  describe.each(HOSTS)('%s', (name) => {
    let host: Host;
    beforeAll(async () => {
      // The store that never answers is given up after four seconds.
      host = await hosts.start(name, { models: LOOKUP, timeoutSeconds: 7 });
    });

    it('deletes the messages whose results were taken, and no other, at any time', async () => {
      const ids = host.send(BODIES);
      const refused = ids[17] as string;
      const seen: string[] = [];
      hosts.intercept(({ operation, queue, body }) => {
        seen.push(...lost(host, ids));
        const isIt = operation === 'SendMessageBatch' && queue === host.results && body.includes(refused);
        return isIt && host.receives([refused])[0] === 1 ? FAULTS.unavailable : undefined;
      });
      await host.become('deleted', ids);
      expect(seen).toEqual([]);
      expect(await host.answers(ids)).toHaveLength(BODIES.length);
    });

    it('writes the same result under the same ID again when it is killed before it deletes the message', async () => {
      const ids = host.send(BODIES);
      let isKilled = false;
      let writes = 0;
      hosts.intercept(({ operation, queue }) => {
        if (isKilled || queue !== host.results || operation !== 'SendMessageBatch') return undefined;
        writes += 1;
        return writes === 1 ? 'cut after' : 'silence';
      });
      while (writes < 2) await aMoment();
      expect(host.written()).not.toHaveLength(0);
      isKilled = true;
      await host.kill();

      await host.become('deleted', ids);
      // Each twin is compared.
      await host.answers(ids);
      expect(host.written().filter(({ message_id }) => ids.includes(message_id)).length).toBeGreaterThan(ids.length);
    });

    it('has a store that never answers cost its own results one more try, and not those of others', async () => {
      const ids = host.send(BODIES);
      const [unanswered = ''] = ids;
      const calls: string[] = [];
      hosts.intercept(({ operation, queue, body }) => {
        const isIt = operation === 'SendMessageBatch' && queue === host.results && body.includes(unanswered);
        if (!isIt || host.receives([unanswered])[0] !== 1) return undefined;
        calls.push(body);
        return 'silence';
      });

      await host.become('deleted', ids);
      await host.answers(ids);
      const delayed = ids.filter((id) => calls.some((body) => body.includes(id)));
      expect(delayed.length).toBeLessThanOrEqual(10);
      expect(host.receives(delayed)).toEqual(delayed.map(() => 2));
      const others = ids.filter((id) => !delayed.includes(id));
      expect(host.receives(others)).toEqual(others.map(() => 1));
    });
  });
});
