import { open } from 'node:fs/promises';
import type { JobStorage } from '../../lambda/core/job/storage.ts';

/** Stands for S3: the input is a file; what is put is kept, but for results, which are let go. */
export function diskStorage(file: string): JobStorage {
  const small = new Map<string, string>();
  return {
    async readRange(_, { start, end }) {
      const handle = await open(file);
      try {
        const bytes = Buffer.allocUnsafeSlow(end - start);
        await handle.read(bytes, 0, bytes.length, start);
        return bytes;
      } finally {
        await handle.close();
      }
    },
    readAll: async () => (await open(file)).createReadStream(),
    get: async (key) => small.get(key),
    async put(key, body) {
      small.set(key, body.toString());
    },
    putNew: async () => true,
    look: async () => undefined,
    remove: async (key) => void small.delete(key),
    async *list(prefix) {
      yield* [...small.keys()].filter((key) => key.startsWith(prefix)).toSorted();
    },
  };
}
