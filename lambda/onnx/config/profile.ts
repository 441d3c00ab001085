import { fullTable, tableCost } from '../../core/cost.ts';
import { messageOf } from '../../core/failure.ts';
import type { Cost } from '../../core/model.ts';
import { modelDigest } from './modelDigest.ts';
import { type ProfileFile, profilePath, readProfile } from './profileFile.ts';
import { runtimeVersion, thisMachine } from './thisMachine.ts';

/** What a profile must agree with to be of any use here. */
export interface ProfileUse {
  /** The execution provider that the model was opened with. */
  readonly provider: string;
  /** Of its session, where config.json gives them. @default as many as ONNX Runtime takes */
  readonly threads?: number | undefined;
  /** Whether requests of different lengths share runs: the plan then asks for lengths. */
  readonly isRagged: boolean;
  readonly warn: (message: string) => void;
}

/**
 * What a model's runs cost in milliseconds, by the profile beside it; undefined where it has none of this model, as it is
 * run here. That is warned of, and never an error: what runs cost is then found out as without a profile.
 *
 * @param path of the model
 */
export function readCost(path: string, use: ProfileUse): Cost | undefined {
  try {
    const profile = readProfile(path);
    if (profile === undefined) return undefined;
    const differing = differenceOf(profile, path, use);
    if (differing === undefined) return costOf(profile, use.isRagged);
    use.warn(`${profilePath(path)}: ${differing}; ${UNKNOWN}`);
  } catch (error) {
    const message = messageOf(error);
    use.warn(`${message.startsWith(profilePath(path)) ? '' : `${profilePath(path)}: `}${message}; ${UNKNOWN}`);
  }
  return undefined;
}

const UNKNOWN =
  'what runs cost here is unknown until they are measured at start; run batchscore profile again, or delete it';

/** What keeps a profile from being of this model, as it is run here. The model is read only where all else agrees. */
function differenceOf(profile: ProfileFile, path: string, use: ProfileUse): string | undefined {
  const { cpu, cores, architecture } = thisMachine();
  const { machine, versions } = profile;
  const here = `${cpu}, ${cores} cores, ${architecture}`;
  const there = `${machine.cpu}, ${machine.cores} cores, ${machine.architecture}`;
  if (there !== here) return `expected a profile of this machine (${here}), got one of ${there}`;
  if (profile.provider !== use.provider) {
    return `expected a profile with the provider ${use.provider}, got ${profile.provider}`;
  }
  if (use.threads !== undefined && use.threads !== profile.threads) {
    return `expected a profile with ${use.threads} threads, as config.json says, got ${profile.threads}`;
  }
  const version = runtimeVersion();
  if (minorOf(versions.onnxruntime) !== minorOf(version)) {
    return `expected a profile with ONNX Runtime ${version}, got ${versions.onnxruntime}`;
  }
  return otherModel(profile, path);
}

/** What says that a profile is of another model than the one that it lies beside; undefined where it is of this one. */
export function otherModel({ digest }: ProfileFile, path: string): string | undefined {
  const got = modelDigest(path);
  return digest === got ? undefined : `expected a profile of this model (${got}), got one of ${digest}`;
}

function minorOf(version: string): string {
  return version.split('.').slice(0, 2).join('.');
}

/** Where requests of different lengths do not share runs, the plan knows no length. */
function costOf({ table, threads, length: ordinary }: ProfileFile, isRagged: boolean): Cost {
  const runs = table.filter((run) => run.threads === threads && (isRagged || run.length === ordinary));
  return tableCost(
    fullTable(runs.map(({ rows, length, medianMs }) => ({ rows, length: isRagged ? length : 1, ms: medianMs }))),
  );
}
