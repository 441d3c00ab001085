import type { Model } from '../../lambda/core/model.ts';

import type { Spec } from '../../lambda/jobs/jobTypes.ts';
import type { LineBatchLimits } from '../lineBatches.ts';
import type { DataFormat } from './dataFormat.ts';

/** What is known of a file of rows before it is read. */
export interface RowOptions {
  readonly model: Model;
  /** Of the file, for messages. */
  readonly name: string;
  /** @default what the first line tells */
  readonly format: DataFormat | undefined;
  /** Which columns make up an input, and which are carried beside the result. */
  readonly spec: Pick<Spec, 'inputs' | 'keep'>;
  /** Whether lines may be requests: their results are not columns. */
  readonly takesRequests: boolean;
  readonly limits: LineBatchLimits;
  /** Of the file; undefined for stdin. */
  readonly bytes: number | undefined;
}
