import type { Compression, Format, Spec } from './words.ts';

const FORMAT_BY_ENDING: readonly (readonly [ending: RegExp, format: Format])[] = [
  [/\.(jsonl|ndjson|json)$/i, 'jsonl'],
  [/\.csv$/i, 'csv'],
  [/\.(parquet|pq)$/i, 'parquet'],
];
const COMPRESSION_BY_ENDING: readonly (readonly [ending: RegExp, compression: Compression])[] = [
  [/\.(gz|gzip)$/i, 'gzip'],
  [/\.(zst|zstd)$/i, 'zstd'],
];

/** What the keys of inputs end in, for messages. */
export const KNOWN_ENDINGS = '.jsonl, .csv or .parquet, of the first two also with .gz or .zst';

/** How rows lie in an object: as the spec says, else as its key ends; undefined where neither tells. */
export function formatOf(
  key: string,
  spec: Spec,
): { readonly format: Format; readonly compression: Compression } | undefined {
  const [ending, ended] = COMPRESSION_BY_ENDING.find(([pattern]) => pattern.test(key)) ?? [/$/, 'none'];
  const compression = spec.compression ?? ended;
  const name = key.replace(ending, '');
  const format = spec.format ?? FORMAT_BY_ENDING.find(([pattern]) => pattern.test(name))?.[1];
  return format === undefined ? undefined : { format, compression };
}
