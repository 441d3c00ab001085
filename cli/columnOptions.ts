import { messageOf } from '../lambda/core/failure.ts';

import type { Spec } from '../lambda/jobs/jobTypes.ts';
import { expandColumns } from '../lambda/jobs/submitJob.ts';
import { UsageError } from './arguments.ts';

/** The options that say which columns make up an input, and which are carried beside the result. */
export interface ColumnValues {
  /** Each `INPUT=COLUMNS`. */
  readonly inputs?: readonly string[] | undefined;
  readonly keep?: string | undefined;
}

/** @throws UsageError for what names no columns */
export function columnSpec({ inputs, keep }: ColumnValues): Pick<Spec, 'inputs' | 'keep'> {
  return {
    ...(inputs !== undefined && { inputs: Object.fromEntries(inputs.map(inputOf)) }),
    ...(keep !== undefined && { keep: columnsOf('--keep', keep) }),
  };
}

/** @throws UsageError when the option is none of those that are known */
export function oneOf<T extends string>(option: string, text: string | undefined, known: readonly T[]): T | undefined {
  const found = known.find((one) => one === text);
  if (text === undefined || found !== undefined) return found;
  throw new UsageError(`${option}: expected one of ${known.join(', ')}, got '${text}'`);
}

function inputOf(text: string): [string, string[]] {
  const [, input, columns] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (input === undefined || columns === undefined) {
    throw new UsageError(`--inputs: expected INPUT=COLUMNS, such as image=p0..p63, got '${text}'`);
  }
  return [input, columnsOf('--inputs', columns)];
}

function columnsOf(option: string, text: string): string[] {
  try {
    return expandColumns(text.split(','));
  } catch (cause) {
    throw new UsageError(`${option}: ${messageOf(cause)}`, { cause });
  }
}
