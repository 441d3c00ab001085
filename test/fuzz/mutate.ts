import type { Random } from '../../bench/workload/random.ts';

/** Words that parsers, objects, numbers, files and terminals have tripped over. */
const TOKENS = [
  ...[
    '',
    '\0',
    '\ud800',
    '\udfff\ud800',
    '\uffff',
    '\ufeff',
    '\u2028',
    '\u001b[2J',
    'grüß',
    '😀',
    '"',
    '\\',
    '\n',
    '\r\n',
  ],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', '..', '../../etc/passwd', '/', '%', '%00', '$&', '<b>'],
  ...[
    'NaN',
    'Infinity',
    '-Infinity',
    '1e400',
    '-0',
    '0x10',
    '1e-400',
    '00',
    '9007199254740993',
    '-9223372036854775809',
  ],
  ...['null', 'true', '[]', '{}', '[[[[[[[[', ']]]]', '{"a":', ',', ':', '"id":"i",', '{"inputs":[]}', ' ', '\t', '""'],
];
const VALUES: readonly unknown[] = [
  ...[null, true, false, 0, -0, -1, 1, 2, 1.5, 1e308, -1e-320, 65_536, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 63), 1e21],
  ...[[], {}, [[]], [null], [[1, [2]]], { data: [] }, { __proto__: null, length: 1e9 }, new Array(70).fill(0)],
];

export function pick<T>(random: Random, items: readonly T[]): T {
  return items[random.below(items.length)] as T;
}

/** One time in so many. */
export function rarely(random: Random, times: number): boolean {
  return random.below(times) === 0;
}

/** A value that nothing asked for. */
function oddValue(random: Random): unknown {
  if (rarely(random, 3)) return pick(random, TOKENS);
  if (rarely(random, 60)) return 'x'.repeat(1 << random.below(19));
  if (rarely(random, 60)) return deep(1 << random.below(10));
  return pick(random, VALUES);
}

function deep(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = level % 3 === 0 ? { inputs: value } : [value];
  return value;
}

/** A JSON value with one part of it replaced, removed, repeated, renamed or put elsewhere. */
export function mutateJson(value: unknown, random: Random): unknown {
  const places: { readonly holder: Record<string, unknown> | unknown[]; readonly key: string }[] = [];
  const root = { value: structuredClone(value) };
  const visit = (holder: Record<string, unknown> | unknown[]): void => {
    for (const key of Object.keys(holder)) {
      places.push({ holder, key });
      const inner = (holder as Record<string, unknown>)[key];
      if (typeof inner === 'object' && inner !== null) visit(inner as unknown[]);
    }
  };
  visit(root);
  const { holder, key } = pick(random, places);
  const other = pick(random, places);
  const [at, from] = [holder as Record<string, unknown>, other.holder as Record<string, unknown>];
  const change = random.below(7);
  if (change === 0) delete at[key];
  else if (change === 1) at[key] = [at[key]];
  else if (change === 2) at[key] = structuredClone(from[other.key]);
  else if (change === 3 && Array.isArray(holder)) holder.splice(Number(key), 0, structuredClone(at[key]));
  else if (change === 4 && !Array.isArray(holder)) {
    const name = rarely(random, 40) ? 'x'.repeat(1 << random.below(19)) : pick(random, TOKENS);
    Object.defineProperty(at, name, {
      value: at[key],
      enumerable: true,
      configurable: true,
      writable: true,
    });
    if (rarely(random, 2)) delete at[key];
  } else if (change === 5 && typeof at[key] === 'number') at[key] = -Number(at[key]) * 10 ** random.below(30);
  else at[key] = oddValue(random);
  return root.value;
}

/** A text with one place of it changed: characters lost, doubled, moved, flipped, or a word put in. */
export function mutateText(text: string, random: Random): string {
  const at = random.below(text.length + 1);
  const length = rarely(random, 4) ? random.below(text.length + 1) : 1 + random.below(8);
  const span = text.slice(at, at + length);
  switch (random.below(6)) {
    case 0:
      return text.slice(0, at) + text.slice(at + length);
    case 1:
      return text.slice(0, at) + span.repeat(rarely(random, 50) ? 1 << random.below(12) : 2) + text.slice(at + length);
    case 2:
      return text.slice(0, at);
    case 3: {
      const to = random.below(text.length + 1);
      return text.slice(0, to) + span + text.slice(to);
    }
    case 4:
      return text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ (1 << random.below(8))) + text.slice(at + 1);
    default:
      return text.slice(0, at) + pick(random, TOKENS) + text.slice(at);
  }
}

/** A JSON text with one of its names or values as long, deep or wide as half a megabyte can be. */
export function blownUp(text: string, random: Random): string {
  const { 0: part, index } = pick(random, [...text.matchAll(/"[^"]*"|\d+/g)]);
  const size = 1 << random.below(19);
  const blown = pick(random, [
    () => `"${pick(random, ['x', '\\\\', '\\"', '😀', '\\u0000']).repeat(size / 2)}"`,
    () => '9'.repeat(size),
    () => '['.repeat(size / 2) + part + ']'.repeat(size / 2),
    () => `[${`${part},`.repeat(size / (part.length + 1))}${part}]`,
    () => `{${Array.from({ length: size / 16 }, (_, key) => `"k${key}":1`).join()}}`,
    () => ' '.repeat(size) + part,
  ]);
  return text.slice(0, index) + blown() + text.slice(index + part.length);
}

/** Bytes, one to a character, with some of them changed; numbers of their length among them. */
export function mutateBytes(bytes: string, random: Random): string {
  const at = random.below(bytes.length + 1);
  const numbers = [
    '\xff\xff\xff\xff\x07',
    '\xff\xff\xff\x7f',
    '\x80\x80\x80\x80\x80\x80\x80\x80\x01',
    '\0\0\0\0',
    '\x01',
  ];
  if (!rarely(random, 4)) return bytes.slice(0, at) + String.fromCharCode(random.below(256)) + bytes.slice(at + 1);
  if (rarely(random, 2)) {
    const number = pick(random, numbers);
    return bytes.slice(0, at) + number + bytes.slice(at + number.length);
  }
  return mutateText(bytes, random).replace(/[^\0-\xff]/g, '?');
}

/** Applies one to four changes. */
export function mutated<T>(value: T, random: Random, mutate: (value: T, random: Random) => T): T {
  let changed = value;
  for (let changes = 1 + random.below(4); changes > 0; changes--) changed = mutate(changed, random);
  return changed;
}
