import { hash, randomUUID } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { basename, dirname, join } from 'node:path';
import * as z from 'zod';
import { messageOf } from '../core/failure.ts';
import type { Model } from '../core/model.ts';
import { CONFIG_FILE } from '../core/places.ts';
import { deployedFiles, type ModelLocation } from './findModels.ts';
import { isNotThere, type ModelConfig, readJsonIfThere, readModelConfig } from './modelConfig.ts';
import { externalFilesOf } from './modelFile.ts';
import { SAMPLES_FILE } from './probes.ts';
import { runtimeVersion } from './profileFile.ts';
import { sessionSettings } from './sessionOrders.ts';
import { type Prepared, whyNotAt, withinLimit } from './warmUp.ts';
import { isLarge, modelDigest } from './weights.ts';

/*
 * What a start finds out of a model, kept beside it in `proof.json`, so that a start whose model is the same runs one
 * warm-up in place of all its checks. It holds what the checks found, what they depend on, and a checksum of itself.
 *
 *     findProof ── cheap keys agree? ──> ProofAtHand ── confirm: the model's digest ──> prepareAsProved
 *     toProved ── after checks that were thorough ──> keepProof
 *
 * Any doubt is a warning and no proof: the start then proves the model as it does without one.
 *
 * @see docs/adr/0049-the-proof-travels-with-the-model.md
 */

const size = z.int().min(1).max(65_536);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 digits of a SHA-256');

/** What the checks found, as a start needs it. */
const found = z.strictObject({
  /** Never `unproven`: of such a model there is nothing to keep. */
  independence: z.enum(['proved', 'trusted', 'dependent']),
  /** The most rows in one run, where that is fewer than were asked for. */
  maxBatchRows: size.optional(),
  allowedSizes: z.array(size),
  /** Of the largest run whose rows were compared. */
  verifiedRows: size.optional(),
  maxSharedRows: size.optional(),
  largestDifference: z.number().min(0).optional(),
  bakedRows: size.optional(),
  /**
   * Of a model whose weights are apart, how it is opened: without prepacking them, which takes next to no time, and with it
   * `later`, or `never` where its runs take no longer so. @default prepacked
   */
  prepacking: z.enum(['later', 'never']).optional(),
  /** Threads that a run is spread over; as many as ONNX Runtime takes where it is not given. */
  threads: size.optional(),
  /** Of symbolic axes: the warm-up runs there. */
  sizes: z.record(z.string(), z.int().min(0)),
  /** The least that runs took, in milliseconds, where they were measured. */
  measured: z.array(z.strictObject({ rows: size, length: z.int().min(0), ms: z.number().min(0) })).min(1),
  probes: z.int().min(0),
  /** For the start log. */
  found: z.string(),
  warnings: z.array(z.string()),
});

/** What the checks found of a model. */
export type Proved = z.infer<typeof found>;

const FORMAT = 1;
/** To be raised with every change of what the checks try, compare or conclude: what older ones found is not believed. */
const CHECKS = 2;

const schema = z.strictObject({
  format: z.literal(FORMAT, { error: `expected ${FORMAT}, as this version of batchscore writes it` }),
  /** What all of it depends on. */
  keys: z.strictObject({
    /** Of the model with all its weights, as `modelDigest` has it. */
    model: sha256,
    /** Of config.json, of the transform that it names with what lies beside it, and of the settings of the session. */
    settings: sha256,
    /** Of samples.jsonl; of nothing where there is none. */
    samples: sha256,
    /** The version of ONNX Runtime. */
    runtime: z.string().max(100),
    /** Those of the processor that kernels are chosen by. */
    instructions: z.string().max(1_000),
  }),
  found,
  /** SHA-256 of all the rest. */
  checksum: sha256,
});

type Keys = z.infer<typeof schema>['keys'];

/** Far more than any proof has: a larger file would hold up a start. */
const MAX_BYTES = 1024 * 1024;

export function proofPath(modelPath: string): string {
  return join(dirname(modelPath), 'proof.json');
}

/** A proof under which all agrees but, until it is confirmed, the model. */
interface ProofAtHand {
  readonly found: Proved;
  /** Whether to confirm it takes longer than opening the model may. */
  readonly isLarge: boolean;
  /**
   * Whether it is of the model, which is read for its digest once, and the files are those that were there when it was
   * found. Where it is not, that is warned of.
   */
  confirm(): Promise<boolean>;
  /** Whether the files are those that were there when it was found. */
  isUnchanged(): boolean;
}

interface ProofUse {
  /** Told what keeps a proof from being believed, and what to do. */
  readonly warn: (message: string) => void;
  /** Told that rounding has to be proved here. */
  readonly inform?: ((message: string) => void) | undefined;
}

/**
 * The proof beside a model, where it can be believed here; undefined where there is none, or any doubt.
 *
 * One of another instruction set tells of the graph, and not of rounding: that rows depend on each other stays true, that
 * they do not is proved anew.
 */
export function findProof(
  location: ModelLocation,
  config: ModelConfig,
  { warn, inform }: ProofUse,
): ProofAtHand | undefined {
  const path = proofPath(location.path);
  const doubt = (what: string): void =>
    warn(`${path}: ${what}; the model is proved at start: run batchscore inspect --prove again, or delete it`);
  try {
    const proof = readProof(path);
    if (proof === undefined) return undefined;
    const here = { ...keysWithoutModel(location, config), model: proof.keys.model };
    const differing = differenceOf(proof.keys, here);
    if (differing !== undefined) return void doubt(differing);
    const isStructure = proof.found.independence === 'dependent' && config.ragged === undefined;
    const isElsewhere = proof.keys.instructions !== here.instructions;
    if (isElsewhere) {
      const use = isStructure ? 'that requests run one at a time stays' : 'how it rounds is proved at start';
      inform?.(`${path}: proved with ${proof.keys.instructions}, and here is ${here.instructions}: ${use}`);
      if (!isStructure) return undefined;
    }
    const stamp = stampOf(location, config);
    let digesting: Promise<string> | undefined;
    const confirm = async (): Promise<void> => {
      digesting ??= modelDigest(location.path);
      const digest = (await digesting).replace('sha256:', '');
      if (digest !== proof.keys.model) {
        throw new Error(`expected a proof of this model (SHA-256 ${digest}), got one of ${proof.keys.model}`);
      }
      if (stampOf(location, config) === stamp) return;
      throw new Error('expected files that stay as they are while the model is opened, got others');
    };
    return {
      // That prepacking changes no answer is about rounding too.
      found: isElsewhere ? { ...proof.found, prepacking: undefined } : proof.found,
      isLarge: isLarge(location.path),
      isUnchanged: () => stampOf(location, config) === stamp,
      confirm: () =>
        confirm().then(
          () => true,
          (error: unknown) => {
            doubt(messageOf(error));
            return false;
          },
        ),
    };
  } catch (error) {
    const message = messageOf(error);
    doubt(message.startsWith(path) ? message.slice(path.length + 2) : message);
    return undefined;
  }
}

/** @throws Error naming the file and what is wrong in it */
function readProof(path: string): z.infer<typeof schema> | undefined {
  const there = statSync(path, { throwIfNoEntry: false });
  if (there?.isFile() === false) throw new Error(`${path}: expected a file, got something else`);
  const bytes = there?.size ?? 0;
  if (bytes > MAX_BYTES) throw new Error(`${path}: expected a proof of ${MAX_BYTES} bytes at most, got ${bytes}`);
  const proof = readJsonIfThere(path, schema, 'proof');
  if (proof === undefined || proof.checksum === checksumOf(proof)) return proof;
  throw new Error(`${path}: expected what batchscore wrote, got other content than its checksum is of`);
}

/** The order of keys is that of the schema, whoever wrote them. */
function checksumOf({ format, keys, found }: Omit<z.infer<typeof schema>, 'checksum'>): string {
  return hash('sha256', JSON.stringify([format, keys, found]));
}

function differenceOf(proof: Keys, here: Keys): string | undefined {
  if (proof.runtime !== here.runtime) {
    return `expected a proof with ONNX Runtime ${here.runtime}, got one with ${proof.runtime}`;
  }
  if (proof.settings !== here.settings) {
    return 'expected a proof with this config.json and its transform, got one with others';
  }
  if (proof.samples !== here.samples) return `expected a proof with this ${SAMPLES_FILE}, got one with another`;
  return undefined;
}

function keysWithoutModel({ folder }: ModelLocation, config: ModelConfig): Omit<Keys, 'model'> {
  const transform = filesOfTransform(folder, config).map((file) => [file, digestOfFile(join(folder, file))]);
  const session = Object.entries(sessionSettings(config.sessionOptions?.extra)).toSorted();
  return {
    settings: hash('sha256', JSON.stringify([CHECKS, config, transform, session])),
    samples: digestOfFile(join(folder, SAMPLES_FILE)),
    runtime: runtimeVersion(),
    instructions: instructionSet(),
  };
}

/**
 * Which files all of it is read from, as the system tells them apart: while it stays what it was, what was opened in
 * between is what a digest is of.
 *
 * @throws Error of the system when a file cannot be looked at
 */
export function stampOf({ path, folder }: ModelLocation, config: ModelConfig): string {
  const beside = [CONFIG_FILE, SAMPLES_FILE, ...filesOfTransform(folder, config)];
  return [path, ...externalFilesOf(path), ...beside.map((name) => join(folder, name))]
    .map((file) => {
      const found = statSync(file, { bigint: true, throwIfNoEntry: false });
      return [file, found?.dev, found?.ino, found?.size, found?.mtimeNs, found?.ctimeNs].join();
    })
    .join('\n');
}

/** The transform, and what else lies in the model's folder beside its versions and is deployed: it may import any of that. */
function filesOfTransform(folder: string, { transform }: ModelConfig): string[] {
  if (transform === undefined) return [];
  const name = basename(folder);
  const files = deployedFiles(dirname(folder), name).map((file) => file.slice(name.length + 1));
  const isOther = (file: string): boolean => file === CONFIG_FILE || file === SAMPLES_FILE || /^\d+\//.test(file);
  return files.filter((file) => !isOther(file)).toSorted();
}

/** Of nothing where it is not there. */
function digestOfFile(path: string): string {
  try {
    return hash('sha256', readFileSync(path));
  } catch (error) {
    if (isNotThere(error)) return hash('sha256', '');
    throw error;
  }
}

/** What ONNX Runtime's kernels are chosen by, as Linux calls it on x86 and on ARM. */
const INSTRUCTIONS =
  /^(avx|avx2|fma|f16c|avx512(f|bw|dq|vl|_vnni|_bf16|_fp16)|avx_vnni|avx_ne_convert|amx_(tile|int8|bf16)|asimd|asimddp|asimdhp|fphp|bf16|i8mm|sve|sve2|svebf16|svei8mm|sme|sme2)$/;
const CPU_INFO = '/proc/cpuinfo';
/** The first processor's part of it. */
const CPU_INFO_BYTES = 8 * 1024;

/** Such as `x64 avx avx2 f16c fma`. Where the system does not list them, the name of the processor stands for them. */
function instructionSet(): string {
  const flags = /^(?:flags|Features)\s*:(.*)$/m.exec(readStart(CPU_INFO))?.[1];
  const known = flags?.trim().split(/\s+/).filter((flag) => INSTRUCTIONS.test(flag)).toSorted(); // biome-ignore format: one step a word
  return `${process.arch} ${known === undefined ? (cpus()[0]?.model ?? 'unknown') : known.join(' ')}`;
}

function readStart(path: string): string {
  try {
    const file = openSync(path, 'r');
    try {
      const start = Buffer.alloc(CPU_INFO_BYTES);
      return start.toString('latin1', 0, readSync(file, start));
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}

/**
 * The model as a proof says that it can be run, after one warm-up. What runs cost there is taken in the proportion of what
 * the warm-up takes here.
 *
 * @returns why the model does not run as it did, where it does not
 * @throws Error when an output has no batch axis, or a run does not end
 */
export async function prepareAsProved(model: Model, proved: Proved, runLimitMs: number): Promise<Prepared | string> {
  return withinLimit(model, runLimitMs, async ({ model: limited, measured }) => {
    const { found, sizes, bakedRows, probes, warnings } = proved;
    const asProved = { ...limited, ...limitsOf(model, proved) };
    const reason = await whyNotAt(asProved, asProved.allowedSizes[0] ?? 1, sizes, false);
    if (reason !== undefined) return reason;
    const [here] = measured();
    const there = proved.measured.find(({ rows, length }) => rows === here?.rows && length === here.length);
    const ratio = there === undefined || here === undefined || there.ms === 0 ? 1 : here.ms / there.ms;
    return {
      model: { ...asProved, run: model.run },
      measured: proved.measured.map(({ ms, ...run }) => ({ ...run, ms: ms * ratio })),
      ...(bakedRows !== undefined && { bakedRows }),
      sizes,
      probes,
      found: `as proof.json says: ${found}`,
      warnings,
    };
  });
}

/** A run may have as many rows as are asked for here; beyond those that were compared they are compared step by step. */
function limitsOf(model: Model, { independence, allowedSizes, ...proved }: Proved) {
  const maxBatchRows = Math.min(model.maxBatchRows, proved.maxBatchRows ?? model.maxBatchRows);
  const { verifiedRows = maxBatchRows, maxSharedRows, largestDifference } = proved;
  return {
    independence,
    allowedSizes,
    maxBatchRows,
    verifiedRows: verifiedRows < maxBatchRows ? verifiedRows : undefined,
    maxSharedRows,
    largestDifference,
  };
}

/**
 * What was found of a model, as a proof keeps it.
 *
 * @param model as it was before
 * @throws Error when nothing was proved, with what to do
 */
export function toProved(model: Model, { model: now, sizes, ...prepared }: Prepared, threads?: number): Proved {
  const { independence = 'trusted', maxBatchRows, allowedSizes, maxSharedRows, largestDifference } = now;
  const { bakedRows, measured, probes, found, warnings } = prepared;
  if (sizes === undefined || independence === 'unproven') {
    throw new Error(`expected a model that the checks prove, got: ${[found, ...warnings].join('; ')}`);
  }
  return {
    independence,
    allowedSizes: [...allowedSizes],
    ...(maxBatchRows < model.maxBatchRows && { maxBatchRows }),
    ...(independence === 'proved' && { verifiedRows: now.verifiedRows ?? maxBatchRows }),
    ...(maxSharedRows !== undefined && { maxSharedRows }),
    ...(largestDifference !== undefined && { largestDifference }),
    ...(bakedRows !== undefined && { bakedRows }),
    ...(threads !== undefined && { threads }),
    sizes,
    measured: [...measured],
    probes,
    found,
    warnings: [...warnings],
  };
}

/**
 * Writes what was found beside the model, in place of what was there: whole, or not at all.
 *
 * @param stamp of before the model was opened
 * @throws Error naming the file, where it cannot be written
 */
export async function keepProof(
  location: ModelLocation,
  config: ModelConfig,
  proved: Proved,
  stamp: string,
): Promise<void> {
  const path = proofPath(location.path);
  const digest = (await modelDigest(location.path)).replace('sha256:', '');
  const content = schema.omit({ checksum: true }).parse({
    format: FORMAT,
    keys: { model: digest, ...keysWithoutModel(location, config) },
    found: proved,
  });
  if (stampOf(location, config) !== stamp) {
    throw new Error('expected a model that stays as it is while it is proved, got files that changed; prove it again');
  }
  writeProof(path, content);
}

function writeProof(path: string, content: Omit<z.infer<typeof schema>, 'checksum'>): void {
  const part = `${path}.${randomUUID()}.part`;
  try {
    const { format, keys, found } = content;
    const text = `${JSON.stringify({ format, keys, found, checksum: checksumOf(content) }, null, 1)}\n`;
    writeFileSync(part, text, { flag: 'wx' });
    renameSync(part, path);
  } catch (cause) {
    rmSync(part, { force: true });
    const message = `expected to write the proof there, got: ${messageOf(cause)}; make room, or let this user write`;
    throw new Error(`${path}: ${message}`, { cause });
  }
}

/**
 * Writes the proof of a model beside its copy, whose config.json names a bundle of the same transform. There is none to
 * write if it does not hold.
 */
export function moveProof(from: ModelLocation, to: ModelLocation): void {
  const proof = soundProof(proofPath(from.path));
  if (proof === undefined) return;
  const settingsOf = (location: ModelLocation): string =>
    keysWithoutModel(location, readModelConfig(location.folder)).settings;
  if (proof.keys.settings !== settingsOf(from)) return;
  writeProof(proofPath(to.path), { ...proof, keys: { ...proof.keys, settings: settingsOf(to) } });
}

/** Undefined if there is none, or a start would doubt it. */
function soundProof(path: string): z.infer<typeof schema> | undefined {
  try {
    return readProof(path);
  } catch {
    return undefined;
  }
}
