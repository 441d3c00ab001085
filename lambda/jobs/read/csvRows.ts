import { failure } from '../../core/failure.ts';
import { fieldsOf } from '../../core/job/csv.ts';
import type { InputColumns, JobHead } from '../../core/job/words.ts';
import { DATATYPES } from '../../core/tensor.ts';
import type { LineReader } from './lineRows.ts';

/** Reads a line of CSV as a request: each input's data are its columns. A line that is no row becomes an error. */
export function requestOfFields({
  columns = [],
  inputs = [],
  keep,
}: Pick<JobHead, 'columns' | 'inputs' | 'keep'>): LineReader {
  const placeOf = new Map(columns.map((name, place) => [name, place]));
  const placesOf = (names: readonly string[]) => names.map((name) => placeOf.get(name) ?? -1);
  const spellers = inputs.map((input) => speller(input, placesOf(input.columns)));
  const kept = keep.map((name) => [JSON.stringify(name), placeOf.get(name) ?? -1] as const);
  return (line) => {
    const fields = fieldsOf(line);
    if (fields?.length !== columns.length) return { text: '', failed: noRow(columns.length, fields?.length) };
    const text = `{"inputs":[${spellers.map((spell) => spell(fields)).join(',')}]}`;
    if (kept.length === 0) return { text };
    return { text, kept: `{${kept.map(([name, place]) => `${name}:${JSON.stringify(fields[place])}`).join(',')}}` };
  };
}

function noRow(expected: number, got: number | undefined) {
  const what = got === undefined ? 'a quoted field that does not end' : `${got}`;
  return failure(
    'INVALID_REQUEST',
    `line: expected ${expected} fields, as many as the header has, got ${what}; fields hold no line breaks`,
  );
}

/** What JSON takes for a number, one or more of them with commas between. */
const NUMBERS = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?:,-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)*$/;
/** Of integers that a double cannot hold, JSON has the digits as a string. */
const EXACT_DIGITS = 15;

function speller({ input, datatype, shape, columns }: InputColumns, places: readonly number[]) {
  const head = `{"name":${JSON.stringify(input)},"datatype":"${datatype}","shape":[${shape.join(',')}],"data":[`;
  const [first = 0] = places;
  const areTogether = places.every((place, index) => place === first + index);
  const { kind } = DATATYPES[datatype];
  const spell = SPELLINGS[kind];
  return (fields: readonly string[]): string => {
    const own = areTogether ? fields.slice(first, first + columns.length) : places.map((place) => fields[place] ?? '');
    const joined = own.join(',');
    const isPlain = (kind === 'float' || kind === 'integer') && NUMBERS.test(joined);
    return `${head}${isPlain ? joined : own.map(spell).join(',')}]}`;
  };
}

type Spelling = (field: string) => string;

/** A field as JSON. What is not of the datatype is passed on as a string, or null, for the core to refuse. */
const number: Spelling = (field) => {
  const text = field.trim();
  if (text === '') return 'null';
  const special = SPECIAL_NUMBERS[text.toLowerCase().replace(/^\+/, '')];
  if (special !== undefined) return special;
  const value = Number(text);
  return Number.isFinite(value) && !/^[+-]?0[xob]/i.test(text) ? String(value) : JSON.stringify(field);
};

const SPECIAL_NUMBERS: Readonly<Record<string, string>> = {
  nan: '"NaN"',
  inf: '"Infinity"',
  infinity: '"Infinity"',
  '-inf': '"-Infinity"',
  '-infinity': '"-Infinity"',
};

const long: Spelling = (field) => {
  const text = field.trim();
  return /^-?\d+$/.test(text) && text.length > EXACT_DIGITS ? `"${text}"` : number(field);
};

const boolean: Spelling = (field) => {
  const text = field.trim().toLowerCase();
  if (text === 'true' || text === '1') return 'true';
  return text === 'false' || text === '0' ? 'false' : JSON.stringify(field);
};

const SPELLINGS: Readonly<Record<(typeof DATATYPES)[keyof typeof DATATYPES]['kind'], Spelling>> = {
  float: number,
  integer: number,
  bigint: long,
  boolean,
  string: (field) => JSON.stringify(field),
};
