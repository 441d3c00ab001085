import type { DecodedArray } from 'hyparquet';

/** The values of one row of the columns that are kept, as the JSON text of an object. */
export function spellKept(kept: readonly (readonly [name: string, values: DecodedArray])[], row: number): string {
  return `{${kept.map(([name, values]) => `${JSON.stringify(name)}:${JSON.stringify(values[row] ?? null, spellable)}`).join(',')}}`;
}

/** What JSON has no word for: integers that a double cannot hold are digits, bytes base64. */
function spellable(_: string, value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
}
