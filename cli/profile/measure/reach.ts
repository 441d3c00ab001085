import type { Limits, Size, Started, Target } from './messages.ts';
import { type Crash, describeCrash, runChild } from './runChild.ts';

/** A size that runs, in a process of its own. */
export interface Reached extends Size {
  /** The most memory of a process that ran no more rows than these, and none longer. */
  readonly peakRssBytes: number;
}

export interface Reach {
  /** Fewer rows first. */
  readonly reached: readonly Reached[];
  readonly findings: readonly string[];
}

/**
 * Finds out what a model can be run at: each row count in a process of its own, fewer rows first. With more rows than at a
 * length failed, ended the process or took too long, none of that length is tried.
 *
 * @param counts ascending
 * @param onProgress told the share of the counts that is done
 * @throws Error where it does not run with the first of them
 */
export async function reachOf(
  target: Target,
  { lengths: all, requestBytes }: Pick<Started, 'lengths' | 'requestBytes'>,
  counts: readonly number[],
  limits: Limits,
  onProgress: (share: number) => void,
): Promise<Reach> {
  const reached: Reached[] = [];
  const findings: string[] = [];
  let lengths = all;
  for (const [index, rows] of counts.entries()) {
    if (lengths.length === 0) break;
    const tried = await tryRows(target, rows, lengths, limits);
    reached.push(...tried.reached);
    findings.push(...findingsOf(tried, rows, counts[index - 1], all.length > 1));
    if (reached.length === 0) throw new Error(runsAtNothing(tried, requestBytes === undefined));
    lengths = tried.goOn;
    onProgress((index + 1) / counts.length);
  }
  return { reached, findings };
}

/** What became of the runs of so many rows. */
interface Tried {
  readonly reached: readonly Reached[];
  readonly failed: readonly { readonly length: number; readonly reason: string }[];
  readonly slow: { readonly length: number; readonly runMs: number } | undefined;
  readonly crashed: (Crash & { readonly length: number }) | undefined;
  /** Lengths of which more rows may be tried. */
  readonly goOn: readonly number[];
}

async function tryRows(target: Target, rows: number, lengths: readonly number[], limits: Limits): Promise<Tried> {
  const reached: Reached[] = [];
  const failed: { length: number; reason: string }[] = [];
  const goOn: number[] = [];
  let slow: Tried['slow'];
  let trying = lengths[0] as number;
  const crash = await runChild({ ...target, do: 'reach', rows, lengths, limits }, (told) => {
    if (told.kind === 'trying') trying = told.size.length;
    else if (told.kind === 'failed') failed.push({ length: told.size.length, reason: told.reason });
    else if (told.kind === 'ran') {
      const { size, runMs, peakRssBytes } = told;
      reached.push({ ...size, peakRssBytes });
      if (runMs > limits.slowMs) slow = { length: size.length, runMs };
      else goOn.push(size.length);
    }
  });
  return { reached, failed, slow, goOn, crashed: crash && { ...crash, length: trying } };
}

function findingsOf(
  { failed, crashed, slow }: Tried,
  rows: number,
  fewer: number | undefined,
  hasLengths: boolean,
): string[] {
  const of = (length: number): string =>
    `${rows} ${rows === 1 ? 'row' : 'rows'}${hasLengths ? ` of length ${length}` : ''}`;
  const cure = fewer === undefined ? '' : `; set "maxBatchRows" to ${fewer} in config.json`;
  const [first] = failed;
  return [
    ...(first === undefined ? [] : [`a run of ${of(first.length)} failed: ${first.reason}${cure}`]),
    ...(crashed === undefined
      ? []
      : [
          `a run of ${of(crashed.length)} ended its process (${describeCrash(crashed)}), as it would end a host${cure}`,
        ]),
    ...(slow === undefined
      ? []
      : [`runs of more than ${of(slow.length)} were not tried: one took ${(slow.runMs / 1000).toFixed(1)} s`]),
  ];
}

function runsAtNothing({ failed: [first], crashed }: Tried, isMadeUp: boolean): string {
  if (crashed !== undefined) return `expected the model to run, its process ended (${describeCrash(crashed)})`;
  return (
    `expected the model to run with ${isMadeUp ? 'made-up values' : 'the requests of samples.jsonl'}, got: ` +
    `${first?.reason}; put ${isMadeUp ? 'real requests' : 'others'} into samples.jsonl beside config.json`
  );
}
