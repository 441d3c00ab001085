import type { Construct } from 'constructs';
import { RANGES } from '../../../lambda/core/limits.ts';
import type { Batching } from '../base/batching.ts';
import { type Problem, refuse } from '../base/refuse.ts';
import { note, warn } from '../base/warn.ts';
import { type DeployedProfile, type Profiles, readProfiles } from '../image/profiles.ts';

/** What is deployed, as far as profiles have to do with it. */
export interface ProfiledHost {
  readonly batching: Batching;
  readonly timeoutSeconds: number;
  /** Of the deployment; a model's config.json comes first. */
  readonly maxBatchRows?: number | undefined;
  readonly providers?: string | undefined;
  /** What a host has; undefined where it is not known. */
  readonly machine?: { readonly memoryMb: number; readonly vcpus: number } | undefined;
}

/** Of memory, beyond the peak that was seen: a host also holds its clients and its batch. */
const MEMORY_HEADROOM = 1.3;
/** Running rows together pays where it gives so many times the rows a second of rows alone. */
const LEAST_GAIN = 1.1;
const MIB = 1024 * 1024;

/** What is deployed, with the models' folder, where it is one. */
interface ProfiledPlan {
  readonly models: { readonly folder?: string };
  readonly batching: Batching;
  readonly compute: Pick<ProfiledHost, 'timeoutSeconds' | 'machine' | 'providers'>;
  readonly tuning: Pick<ProfiledHost, 'maxBatchRows' | 'providers'>;
}

/**
 * Holds a deployment against the profiles in its folder of models.
 *
 * @throws Error as `checkProfiles` does
 */
export function holdAgainstProfiles(scope: Construct, { models, batching, compute, tuning }: ProfiledPlan): void {
  if (models.folder === undefined) return;
  const { timeoutSeconds, machine } = compute;
  const { maxBatchRows, providers = compute.providers } = tuning;
  checkProfiles(scope, readProfiles(models.folder), { batching, timeoutSeconds, machine, maxBatchRows, providers });
}

/**
 * Holds what is deployed against what was measured of its models. A profile that is of no use is a warning, and a model
 * without one is nothing at all.
 *
 * @throws Error where a run of a model takes more memory than a host has, or more time than its timeout
 */
export function checkProfiles(scope: Construct, { usable, unusable }: Profiles, host: ProfiledHost): void {
  const known = usable.filter((one) => one.profile.provider === providerOf(one, host));
  refuse(known.flatMap((one) => [tooLittleMemory(one, host), tooLittleTime(one, host)]));
  for (const sentence of unusable) {
    warn(scope, 'staleProfile', `${sentence}; whether memory, timeout and batch size fit it is unknown: ${AGAIN}`);
  }
  for (const one of known) {
    const warnings = { profileMemory: tightMemory(one, host), profileTimeout: longBatches(one, host) };
    for (const [id, sentence] of Object.entries(warnings)) if (sentence !== undefined) warn(scope, id, sentence);
    const sentence = uselessBatches(one, host);
    if (sentence !== undefined) note(scope, 'profileBatching', sentence);
  }
}

const AGAIN = 'run batchscore profile again, or delete it';

function providerOf({ config }: DeployedProfile, { providers = 'cpu' }: ProfiledHost): string | undefined {
  return config.providers?.[0]?.name ?? providers.split(',')[0]?.trim();
}

function tooLittleMemory(one: DeployedProfile, { maxBatchRows, machine }: ProfiledHost): Problem {
  const peakMb = peakMbOf(one, maxBatchRows);
  return machine === undefined || peakMb <= machine.memoryMb
    ? undefined
    : memorySentence(one, peakMb, machine.memoryMb);
}

function tightMemory(one: DeployedProfile, { maxBatchRows, machine }: ProfiledHost): string | undefined {
  const peakMb = peakMbOf(one, maxBatchRows);
  if (machine === undefined || MEMORY_HEADROOM * peakMb <= machine.memoryMb) return undefined;
  return memorySentence(one, peakMb, machine.memoryMb);
}

function memorySentence({ profile }: DeployedProfile, peakMb: number, memoryMb: number): string {
  return (
    `memoryMb: expected ${MEMORY_HEADROOM} × ${peakMb} = ${Math.ceil(MEMORY_HEADROOM * peakMb)} or more, because runs of ` +
    `'${profile.model}' took ${peakMb} MiB when it was profiled, got ${memoryMb}; raise it, or lower maxBatchRows`
  );
}

/** The most memory of runs with no more rows than are deployed. */
function peakMbOf({ profile, config }: DeployedProfile, deployed: number | undefined): number {
  const most = mostRowsOf({ profile, config }, deployed);
  const [first, ...others] = profile.table.toSorted((a, b) => a.rows - b.rows);
  const runs = [first, ...others.filter(({ rows }) => rows <= most)];
  return Math.ceil(Math.max(...runs.map((run) => run?.peakRssBytes ?? 0)) / MIB);
}

function mostRowsOf({ profile, config }: DeployedProfile, deployed = RANGES.maxBatchRows.default): number {
  const isAlone = profile.safety.verdict === 'dependent' || profile.safety.verdict === 'alone';
  return isAlone ? 1 : (config.maxBatchRows ?? deployed);
}

function tooLittleTime(one: DeployedProfile, host: ProfiledHost): Problem {
  const [fewest] = runsOf(one, host);
  if (fewest === undefined || fewest.ms <= 1000 * host.timeoutSeconds) return undefined;
  return (
    `timeoutSeconds: expected more than a run of ${rowsOf(fewest)} of '${one.profile.model}' takes by its profile, ` +
    `${(fewest.ms / 1000).toFixed(1)} s${onShare(host)}, got ${host.timeoutSeconds}; raise it, or memoryMb`
  );
}

function longBatches(one: DeployedProfile, host: ProfiledHost): string | undefined {
  const { batching, timeoutSeconds } = host;
  const best = bestOf(runsOf(one, host));
  if (best === undefined) return undefined;
  const seconds = (batching.batchSize * best.ms) / best.rows / 1000;
  if (seconds <= timeoutSeconds) return undefined;
  return (
    `batchSize: expected a batch of '${one.profile.model}' to be scored within timeoutSeconds, ${timeoutSeconds}, got ` +
    `${batching.batchSize} × ${(best.ms / best.rows).toFixed(2)} ms = ${Math.round(seconds)} s by its profile${onShare(host)}; ` +
    `lower batchSize to ${Math.max(1, Math.floor((batching.batchSize * timeoutSeconds) / seconds))}, or raise the timeout`
  );
}

function uselessBatches(one: DeployedProfile, host: ProfiledHost): string | undefined {
  const { batchSize } = host.batching;
  if (batchSize === 1) return undefined;
  const { model, safety } = one.profile;
  const but = `batches of ${batchSize} save calls and round trips, and messages wait for each other in them`;
  if (safety.verdict === 'dependent') {
    return `batchSize: rows of '${model}' depend on each other by its profile, and run alone; ${but}`;
  }
  const runs = runsOf(one, host);
  const [fewest, best] = [runs[0], bestOf(runs)];
  if (fewest === undefined || best === undefined) return undefined;
  const gain = (best.rows * fewest.ms) / (best.ms * fewest.rows);
  if (gain >= LEAST_GAIN) return undefined;
  return (
    `batchSize: the best run of '${model}' gives ${gain.toFixed(2)} times the rows a second of ${rowsOf(fewest)} by its profile, ` +
    `so that batching does not pay; ${but}`
  );
}

interface Run {
  readonly rows: number;
  readonly ms: number;
}

/** Runs of ordinary rows, fewest first: with the number of threads that is fastest on a host, whose vCPUs they share. */
function runsOf({ profile, config }: DeployedProfile, { maxBatchRows, machine }: ProfiledHost): Run[] {
  const most = mostRowsOf({ profile, config }, maxBatchRows);
  const ordinary = profile.table.filter(({ length }) => length === profile.length);
  const fewest = Math.min(...ordinary.map(({ rows }) => rows));
  const vcpus = machine?.vcpus ?? Number.POSITIVE_INFINITY;
  const byRows = Map.groupBy(ordinary, ({ rows }) => rows);
  return [...byRows]
    .filter(([rows]) => rows <= Math.max(most, fewest))
    .map(([rows, runs]) => ({
      rows,
      ms: Math.min(...runs.map(({ medianMs, threads }) => medianMs * Math.max(1, threads / vcpus))),
    }))
    .toSorted((a, b) => a.rows - b.rows);
}

function bestOf(runs: readonly Run[]): Run | undefined {
  return runs.toSorted((a, b) => a.ms / a.rows - b.ms / b.rows)[0];
}

function rowsOf({ rows }: Run): string {
  return `${rows} ${rows === 1 ? 'row' : 'rows'}`;
}

function onShare({ machine }: ProfiledHost): string {
  return machine === undefined ? '' : ` on ${Number(machine.vcpus.toFixed(2))} vCPU`;
}
