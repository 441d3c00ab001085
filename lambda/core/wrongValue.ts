import { plural, preview } from './failure.ts';

/* Translates a validator's findings about a file or options into plain sentences. */

interface RawIssue {
  readonly code?: string;
  readonly expected?: string;
  readonly origin?: string;
  readonly minimum?: number | bigint;
  readonly maximum?: number | bigint;
  readonly values?: readonly unknown[];
  readonly format?: string;
  readonly keys?: readonly string[];
  readonly inst?: unknown;
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

interface Schema {
  safeParse(value: unknown, words: typeof IN_OUR_WORDS): { readonly error?: { readonly issues: readonly Issue[] } };
}

/** Options for `safeParse`. Messages in a schema take precedence. */
export const IN_OUR_WORDS = { error: (issue: RawIssue): string => expectation(issue) };

/** Formats each finding as `where: expected …, got …`, with the actual value. */
export function problemsIn(issues: readonly Issue[], value: unknown): string[] {
  return issues.map(({ path, message }) => {
    const where = path.length === 0 ? '' : `${path.map(String).join('.')}: `;
    return message.includes(', got ')
      ? `${where}${message}`
      : `${where}${message}, got ${preview(valueAt(value, path))}`;
  });
}

/**
 * Suggests the known key nearest to an unknown one: `did you mean batchSize, a whole number from 1 to 10000?`. Returns
 * undefined if none is near.
 */
function didYouMean(wrong: string, known: Readonly<Record<string, Schema>>): string | undefined {
  const nearest = nearestName(wrong, Object.keys(known));
  if (nearest === undefined) return undefined;
  const takes = known[nearest] && takenBy(known[nearest]);
  return `did you mean ${nearest}${takes === undefined ? '' : `, ${takes}`}?`;
}

/** Describes the values that a schema takes, from its finding about a value that no schema takes. */
function takenBy(schema: Schema): string | undefined {
  const [issue] = schema.safeParse(Symbol('nothing'), IN_OUR_WORDS).error?.issues ?? [];
  return issue === undefined ? undefined : /^expected (.*?)(, got .*)?$/.exec(issue.message)?.[1];
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
};

function expectation(issue: RawIssue): string {
  const { code, expected = '', origin, minimum, maximum, values = [], format } = issue;
  switch (code) {
    case 'invalid_type':
      return `expected ${KINDS[expected] ?? expected}`;
    case 'too_small':
      return `expected ${atLeast(origin, minimum)}`;
    case 'too_big':
      return origin === 'number' || origin === 'int'
        ? `expected a number of at most ${maximum}`
        : `expected at most ${formatCount(maximum, origin)}`;
    case 'invalid_value':
      return `expected ${values.length > 1 ? 'one of ' : ''}${values.map(String).join(', ')}`;
    case 'invalid_format':
      return format === 'datetime'
        ? 'expected a time as 2026-01-31T12:00:00Z'
        : `expected ${KINDS.string} of another form`;
    case 'unrecognized_keys':
      return unknownKeys(issue);
    default:
      return 'expected another value';
  }
}

function atLeast(origin: string | undefined, minimum: RawIssue['minimum']): string {
  if (origin === 'number' || origin === 'int') return `a number of at least ${minimum}`;
  return origin === 'string' && Number(minimum) === 1
    ? 'text, not an empty one'
    : `at least ${formatCount(minimum, origin)}`;
}

function formatCount(count: RawIssue['minimum'], origin: string | undefined): string {
  const unit = origin === 'string' ? 'character' : origin === 'array' ? 'element' : undefined;
  return unit === undefined ? String(count) : plural(Number(count), unit);
}

/** Maximum number of known keys in a message, so that it stays readable. */
const MAX_KEYS_LISTED = 20;

function unknownKeys({ keys = [], inst }: RawIssue): string {
  const known = isObjectSchema(inst) ? inst.shape : {};
  const names = Object.keys(known);
  const expected = names.length > MAX_KEYS_LISTED ? 'no other keys' : `only the keys ${names.join(', ')}`;
  const hints = keys.map((key) => didYouMean(key, known)).filter((hint) => hint !== undefined);
  return [`expected ${expected}, got ${keys.map((key) => preview(key)).join(', ')}`, ...hints].join('; ');
}

function isObjectSchema(inst: unknown): inst is { readonly shape: Readonly<Record<string, Schema>> } {
  return typeof inst === 'object' && inst !== null && 'shape' in inst;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (within, key) => (typeof within === 'object' && within !== null ? Reflect.get(within, key) : undefined),
    value,
  );
}

const MAX_NAMES_LISTED = 12;

/** Formats missing names: `expected columns of the file ("id", "p0"), got "p"; did you mean "p0"?`. */
export function notAmong(what: string, names: readonly string[], missing: readonly string[]): string {
  return `expected ${what} (${formatNames(names) || 'none'}), got ${formatNames(missing)}${nearestOf(missing, names)}`;
}

/** Formats names that must be there: `expected "p" among the columns of the file, got "id", "p0"; did you mean "p0"?`. */
export function notFound(missing: readonly string[], what: string, names: readonly string[]): string {
  const got = formatNames(names) || 'none';
  return `expected ${formatNames(missing)} among the ${what}, got ${got}${nearestOf(missing, names)}`;
}

function nearestOf(missing: readonly string[], names: readonly string[]): string {
  const nearest = missing.length === 1 ? nearestName(missing[0] ?? '', names) : undefined;
  return nearest === undefined ? '' : `; did you mean ${preview(nearest)}?`;
}

function formatNames(names: readonly string[]): string {
  const some = names.slice(0, MAX_NAMES_LISTED).map(preview).join(', ');
  return names.length > MAX_NAMES_LISTED ? `${some}, … (${names.length})` : some;
}

const MAX_EDITS = 3;
/** Letters of a name for each allowed edit. With fewer letters, any other name would be near. */
const LETTERS_AN_EDIT = 3;

/** Returns the nearest name, ignoring case, at most three edits away, or undefined. */
export function nearestName(wrong: string, names: readonly string[]): string | undefined {
  const max = Math.min(MAX_EDITS, Math.ceil(wrong.length / LETTERS_AN_EDIT));
  const [nearest] = names
    // The name may be long, and each additional letter is an edit.
    .filter((name) => Math.abs(name.length - wrong.length) <= max)
    .map((name) => ({ name, edits: editDistance(wrong.toLowerCase(), name.toLowerCase()) }))
    .filter(({ edits }) => edits <= max)
    .toSorted((a, b) => a.edits - b.edits);
  return nearest?.name;
}

/** Counts the letters to insert, delete or replace. @see https://en.wikipedia.org/wiki/Levenshtein_distance */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...a].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (row[column - 1] ?? 0) + (letter === b[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
