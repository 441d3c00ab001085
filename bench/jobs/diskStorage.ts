import { open } from 'node:fs/promises';
import type { JobStorage } from '../../lambda/jobs/jobTypes.ts';

/** Stands for S3: the input is a file; what is put is kept, but for results: of them their size is. */
export function diskStorage(file: string): JobStorage {
  const small = new Map<string, string>();
  const results = new Map<string, number>();
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
    async putNew(key, body) {
      results.set(key, body.length);
      return true;
    },
    look: async () => undefined,
    remove: async (key) => void small.delete(key),
    async *list(prefix) {
      for (const key of [...small.keys(), ...results.keys()].filter((one) => one.startsWith(prefix)).toSorted()) {
        yield { key, bytes: results.get(key) ?? Buffer.byteLength(small.get(key) ?? '') };
      }
    },
  };
}
