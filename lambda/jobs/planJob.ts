import { isDeepStrictEqual } from 'node:util';
import type { FileMetaData } from 'hyparquet';
import { isFailure, isTransient } from '../core/failure.ts';
import type { ModelDescription, ModelFinder } from '../core/model.ts';
import { DATATYPES } from '../core/tensor.ts';
import { findFiles } from './inputFiles.ts';
import { type Compression, type Format, type InputFile, JobError, type JobInput, type JobStorage } from './jobFiles.ts';
import {
  cancelledKey,
  cancelWatch,
  dataKey,
  failedKeys,
  failureKey,
  headKey,
  linesOfPlan,
  manifestKey,
  partAndPieceIn,
  planKey,
  readHead,
  readParts,
  reportKeys,
  resumedPlanKeys,
} from './jobObjects.ts';
import {
  type InputColumns,
  type JobHead,
  type JobStart,
  type Part,
  type PartFile,
  piecesOf,
  type RowPiece,
  type Span,
  type Spec,
  spansOf,
} from './jobTypes.ts';
import { firstObject, MAX_HEADER_BYTES, refuseOtherLayouts } from './lineRows.ts';
import { matchColumns, matchKeys } from './matchColumns.ts';
import { bytesOfValues, maxSpent } from './parquetBudget.ts';
import {
  type ColumnType,
  chunksOf,
  columnsOf,
  leafKey,
  leavesOf,
  type RangeStorage,
  readFooter,
} from './parquetFooter.ts';
import { CODECS } from './parquetPages.ts';
import { outputsOf } from './resultFiles.ts';
import { arePlainObjects, rowShape, withSeparator } from './rowRequests.ts';
import { type GoesOn, headerIn, readStart } from './textRows.ts';

export interface PlanEvent {
  readonly action: 'plan';
  readonly start: JobStart;
}

export interface PlanAnswer {
  readonly planKey: string;
  readonly parts: number;
  /** Null if only reading the whole object tells. */
  readonly pieces: number | null;
}

interface PlanDependencies {
  readonly storage: JobStorage;
  readonly models: ModelFinder;
  readonly partBytes: number;
  readonly pieceBytes: number;
  /** Returns true if there is time to read on. @default always */
  readonly hasTime?: (() => boolean) | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/**
 * Writes the plan of a job once: how its input is cut. A repeated call returns the plan of the first call. The plan of
 * a resumed job lists the pieces without a report. Objects that ended an earlier run are removed.
 *
 * @throws JobError if the input, the model and the settings do not fit each other
 */
export async function planJob({ start }: PlanEvent, deps: PlanDependencies): Promise<PlanAnswer> {
  const { folder, run } = start;
  // Step Functions forgets an execution name after 90 days, so an old folder may exist.
  if (run === 1) await removeEnd(deps.storage, folder);
  const head = (await readHead(deps.storage, folder)) ?? (await createHead(start, deps));
  const key = planKey(folder, run);
  if (run > 1) await planWhatIsMissing(deps.storage, folder, head, run);
  const parts = await readParts(deps.storage, key);
  return { planKey: key, parts: parts.length, pieces: sumOf(parts, head.pieceBytes) };
}

async function createHead(asked: JobStart, deps: PlanDependencies): Promise<JobHead> {
  const { job, bucket, key, etag, bytes, folder } = asked;
  const { storage, models, partBytes, pieceBytes, now } = deps;
  const files = await findFiles(storage, asked);
  const [first] = files as readonly [InputFile];
  const { format, compression } = formatOf(first.key, asked.spec);
  refuseSeparator(first.key, format, asked.spec);
  const spec = format === 'csv' ? withSeparator(first.key, asked.spec) : asked.spec;
  const start = { ...asked, spec };
  const model = await findModel(models, start);
  const { parts, ...found } = await layOutFiles(start, files, format, model, deps);
  if (found.inputs === undefined && spec.results !== undefined && spec.results !== 'jsonl') {
    throw new JobError(
      'INVALID_JOB',
      `results: expected jsonl, because the rows of ${first.key} are requests, which have no columns, got ${spec.results}`,
    );
  }
  const head: JobHead = {
    ...{ bucket, key, etag, bytes, format, compression },
    ...found,
    ...(first.path !== '' && { files: files.length }),
    job,
    model: model.name,
    version: model.version,
    partBytes,
    pieceBytes,
    parts: parts.length,
    pieces: sumOf(parts, pieceBytes) ?? undefined,
    outputs: outputsOf(model),
    keep: spec.keep ?? [],
    separator: spec.separator,
    missing: spec.missing,
    results: spec.results ?? 'jsonl',
    plannedAt: new Date(now()).toISOString(),
  };
  // The head is put last: if it exists, the plan exists.
  await storage.put(planKey(folder, 1), linesOfPlan(parts));
  await storage.put(headKey(folder), JSON.stringify(head));
  return head;
}

function refuseSeparator(key: string, format: Format, { separator }: Spec): void {
  if (separator === undefined || format === 'csv') return;
  throw new JobError('INVALID_JOB', `${key}: expected separator only with CSV, got it with ${format}; leave it out`);
}

async function findModel(models: ModelFinder, { spec }: JobStart): Promise<ModelDescription> {
  const model = await models.find(spec.model, spec.version);
  if (!isFailure(model)) return model;
  if (isTransient(model)) throw new Error(model.message);
  throw new JobError('INVALID_JOB', model.message);
}

function sumOf(parts: readonly Part[], pieceBytes: number): number | null {
  let sum = 0;
  for (const part of parts) {
    const pieces = part.only?.length ?? piecesOf(part, pieceBytes);
    if (pieces === undefined) return null;
    sum += pieces;
  }
  return sum;
}

/** Parts of a file, and what every call must know of its columns. */
interface Layout extends Pick<JobHead, 'columns' | 'inputs'> {
  readonly parts: readonly Span[];
}

/** Maximum number of files to read at a time, and bytes of them: a footer takes thirty times its size when it is parsed. */
const FILES_READ = 32;
const BYTES_READ = 32 * 1024 * 1024;

/** Cuts all files. Their columns must be those of the first. */
async function layOutFiles(
  start: JobStart,
  files: readonly InputFile[],
  format: Format,
  model: ModelDescription,
  deps: PlanDependencies,
): Promise<Omit<Layout, 'parts'> & { readonly parts: readonly Part[] }> {
  const { key, folder, spec } = start;
  const isCancelled = cancelWatch(deps.storage, folder);
  const goesOn = async (): Promise<boolean> => {
    if (await isCancelled()) throw new Error(`${key}: the job was cancelled`);
    return deps.hasTime?.() ?? true;
  };
  const layOut = async (file: InputFile, isFirst: boolean) => {
    const own = formatOf(file.key, spec);
    if (own.format !== format) throw otherThanFirst(file, files, `the format ${format}`, own.format);
    const layout = await (format === 'parquet'
      ? layOutParquet(file, spec, model, deps)
      : layOutText(file, own, { spec, model, goesOn, isFirst }, deps));
    const { bucket: _, ...about } = file;
    return { ...layout, parts: layout.parts.map((span) => ({ ...about, compression: own.compression, ...span })) };
  };
  const [first, ...others] = files as readonly [InputFile, ...InputFile[]];
  const { parts, ...found } = await layOut(first, true).catch((error: unknown) => throwNaming(first, error));
  const spans: (readonly PartFile[])[] = [parts];
  for (const batch of batchesToRead(others, format)) {
    const laidOut = await Promise.all(
      batch.map(async (file) => {
        const layout = await layOut(file, false).catch((error: unknown) => throwNaming(file, error));
        if (format !== 'jsonl') refuseOtherColumns(file, layout, files, found);
        return layout.parts;
      }),
    );
    spans.push(...laidOut);
  }
  return { ...found, parts: partsOfFiles(spans, folder, deps) };
}

function batchesToRead(files: readonly InputFile[], format: Format): readonly (readonly InputFile[])[] {
  const batches: InputFile[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const file of files) {
    const own = format === 'parquet' ? Math.min(file.bytes, BYTES_READ) : MAX_HEADER_BYTES;
    if (bytes + own > BYTES_READ || batches.at(-1)?.length === FILES_READ) {
      batches.push([]);
      bytes = 0;
    }
    batches.at(-1)?.push(file);
    bytes += own;
  }
  return batches;
}

function refuseOtherColumns(
  file: InputFile,
  { columns, inputs }: Omit<Layout, 'parts'>,
  files: readonly InputFile[],
  found: Omit<Layout, 'parts'>,
): void {
  if (isDeepStrictEqual([columns, inputs], [found.columns, found.inputs])) return;
  const at = columns?.findIndex((name, place) => name !== found.columns?.[place]) ?? -1;
  const [expected, got] = [found.columns, columns].map((names) => names?.[at] ?? `${names?.length} columns`);
  throw otherThanFirst(file, files, `the columns, in the same order (${expected})`, `${got}`);
}

function otherThanFirst({ key }: InputFile, [first]: readonly InputFile[], what: string, got: string): JobError {
  return new JobError('INVALID_JOB', `${key}: expected ${what} of ${first?.key}, got ${got}; make it a job of its own`);
}

/** Rethrows an error with the key of a file among several. */
function throwNaming({ key, path }: InputFile, error: unknown): never {
  if (!(error instanceof JobError) || path === '' || error.message.startsWith(key)) throw error;
  throw new JobError(error.code, `${key}: ${error.message}`);
}

/** Maximum number of files in a part. Their keys are in each event of its calls. */
const FILES_A_PART = 64;
/** @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html */
const MAX_KEY_BYTES = 1024;

/** Numbers the parts. Files of one piece share parts, so that many small files need few calls. */
function partsOfFiles(
  files: readonly (readonly PartFile[])[],
  folder: string,
  { partBytes, pieceBytes }: Pick<PlanDependencies, 'partBytes' | 'pieceBytes'>,
): readonly Part[] {
  const parts: (readonly PartFile[])[] = [];
  let shared: PartFile[] = [];
  let bytes = 0;
  for (const spans of files) {
    const [file] = spans as readonly [PartFile];
    const place = { folder, part: 0, piece: 0, path: file.path, format: 'parquet' } as const;
    if (Buffer.byteLength(dataKey(place, 0)) > MAX_KEY_BYTES) {
      throw new JobError(
        'INVALID_JOB',
        `${file.key}: expected a shorter path, because the keys of its results have over ${MAX_KEY_BYTES} bytes`,
      );
    }
    const pieces = spans.length === 1 ? piecesOf({ files: [file] }, pieceBytes) : undefined;
    if (pieces === 0 && files.length > 1) continue;
    if (pieces !== 1) {
      for (const span of spans) parts.push([span]);
      continue;
    }
    if (shared.length === 0 || shared.length === FILES_A_PART || bytes + file.bytes > partBytes) {
      shared = [];
      bytes = 0;
      parts.push(shared);
    }
    bytes += file.bytes;
    shared.push(file);
  }
  if (parts.length === 0) parts.push((files[0] as readonly PartFile[]).slice(0, 1));
  return parts.map((own, part) => ({ part, files: own }));
}

/**
 * Maximum size of a compressed object. It is one part, scored by one call after another. Each call that starts in the
 * middle reads the object from its beginning.
 */
const MAX_COMPRESSED_BYTES = 1024 * 1024 * 1024;

interface TextOptions {
  readonly spec: Spec;
  readonly model: ModelDescription;
  readonly goesOn: GoesOn;
  /** False for files whose lines are read like those of the first file. */
  readonly isFirst: boolean;
}

/** Cuts lines of text. The header tells the layout of CSV, the first lines that of JSON lines. */
async function layOutText(
  file: InputFile,
  { format, compression }: FormatOfObject,
  { spec, model, goesOn, isFirst }: TextOptions,
  { storage, partBytes }: PlanDependencies,
): Promise<Layout> {
  const { key, bytes, path } = file;
  const isPlain = compression === 'none';
  if (!isPlain && bytes > MAX_COMPRESSED_BYTES) {
    throw new JobError(
      'INVALID_JOB',
      `${key}: expected at most ${MAX_COMPRESSED_BYTES} bytes of ${compression}, because each call reads it from its start, ` +
        `read, got ${bytes}; split the file, or upload it uncompressed`,
    );
  }
  if (isPlain && format === 'jsonl' && !isFirst) return { parts: spansOf(bytes, partBytes) };
  const begin = Buffer.from(await readStart(storage, file, compression, MAX_HEADER_BYTES, goesOn));
  // A file among others whose text is known to be short is one piece.
  const whole = path !== '' && begin.length < MAX_HEADER_BYTES ? { end: begin.length } : {};
  const partsFrom = (at: number): Span[] => (isPlain ? spansOf(bytes, partBytes, at) : [{ start: at, ...whole }]);
  if (format === 'csv') {
    const { columns, end } = headerIn(begin, file, spec.separator);
    return { columns, inputs: matchColumns(model, columns, spec), parts: partsFrom(end) };
  }
  const lines = begin
    .toString()
    .replace(/^\uFEFF/, '')
    .split('\n');
  if (!isFirst) return { parts: partsFrom(0) };
  refuseOtherLayouts(key, lines, model);
  const first = firstObject(lines);
  if (arePlainObjects(first, model)) return { inputs: matchKeys(model, first, spec), parts: partsFrom(0) };
  const option = (['inputs', 'keep', 'missing'] as const).find((name) => spec[name] !== undefined);
  if (option !== undefined) {
    throw new JobError(
      'INVALID_JOB',
      `${key}: expected ${option} only with CSV, Parquet and plain objects, which have columns, got requests; ` +
        'leave it out: each line is a complete request',
    );
  }
  return { parts: partsFrom(0) };
}

/** Memory of a row without its values. */
const ROW_BYTES = 64;

/**
 * Cuts Parquet into pieces of about `pieceBytes`. A piece is a range of rows in one row group, or several whole row
 * groups. A part is several pieces.
 */
export async function layOutParquet(
  input: JobInput,
  spec: Spec,
  model: ModelDescription,
  {
    storage,
    partBytes,
    pieceBytes,
  }: Pick<PlanDependencies, 'partBytes' | 'pieceBytes'> & { readonly storage: RangeStorage },
): Promise<Layout> {
  const footer = await readFooter(storage, input);
  const columns = columnsOf(footer);
  const inputs = matchColumns(model, [...columns.keys()], spec);
  refuseKinds(inputs, columns);
  const names = new Set([...inputs.flatMap((one) => one.columns), ...(spec.keep ?? [])]);
  const leaves = leavesOf(footer, names);
  refuseGroups(input, footer, names, leaves);
  const pieces = cutIntoPieces(input, footer, names, leaves, pieceBytes);
  return { inputs, parts: groupIntoParts(pieces, partBytes, pieceBytes) };
}

function refuseKinds(inputs: readonly InputColumns[], columns: ReadonlyMap<string, ColumnType>): void {
  for (const { input, datatype, columns: wanted, list } of inputs) {
    const kind = DATATYPES[datatype].kind === 'string' ? 'text' : 'number';
    const takesOne = list === undefined || !isFailure(rowShape(list, 0));
    const wrong = wanted.find((name) => {
      const column = columns.get(name);
      const isList = column?.kind === 'list';
      if (isList ? list === undefined : !takesOne && column?.kind !== 'none') return true;
      return ![kind, 'none'].includes((isList ? column.elements : column?.kind) ?? 'other');
    });
    if (wrong === undefined) continue;
    const others = list === undefined ? 'dates, decimals or lists,' : 'dates or decimals,';
    const values = kind === 'text' ? 'texts' : `booleans, integers or floats, not ${others}`;
    const expected = takesOne ? values : `lists of ${values}`;
    throw new JobError(
      'INVALID_JOB',
      `column '${wrong}': expected ${expected} for the input '${input}' of ${datatype}, got ${columns.get(wrong)?.name}; write it as ${takesOne ? '' : 'lists of '}${kind === 'text' ? 'texts' : 'numbers'}, as the model was trained`,
    );
  }
}

type Leaves = ReturnType<typeof leavesOf>;

function refuseGroups(
  { key, bytes }: JobInput,
  footer: FileMetaData,
  names: ReadonlySet<string>,
  leaves: Leaves,
): void {
  const refused = (expected: string, got: string | number, cure: string) =>
    new JobError('INVALID_JOB', `${key}: expected ${expected}, got ${got}; ${cure}`);
  const variant = [...leaves].find(([, path]) => path.some(({ element }) => element.logical_type?.type === 'VARIANT'));
  if (variant !== undefined)
    throw refused('columns of other types', `VARIANT in '${variant[0].split('\0').join('.')}'`, 'cast it to a text');
  const most = maxSpent(bytes, Number(footer.num_rows) * leaves.size);
  let size = 0;
  for (const [group, { num_rows: rows }] of footer.row_groups.entries()) {
    const chunks = chunksOf(footer, group, names);
    const codec = chunks.find((chunk) => !CODECS.includes(chunk.codec))?.codec;
    if (codec !== undefined) throw refused(`one of ${CODECS.join(', ')}`, codec, 'write it with another');
    if (rows > 0n && chunks.length < leaves.size) {
      throw refused('columns that are not encrypted', `others in row group ${group}`, 'decrypt the file');
    }
    size += chunks.reduce((sum, chunk) => sum + Number(chunk.total_uncompressed_size), 0);
    if (size > most) throw refused(`columns that inflate to at most ${most} bytes`, size, 'write the file again');
  }
}

/** Maximum number of pieces of a Parquet file. The plan lists each of them. */
const MAX_PIECES = 100_000;

function cutIntoPieces(
  { key }: JobInput,
  footer: FileMetaData,
  names: ReadonlySet<string>,
  leaves: Leaves,
  pieceBytes: number,
): RowPiece[] {
  const pieces: RowPiece[] = [];
  let start = 0;
  /** Size of the last piece if it consists of whole row groups: the next group may join it. Infinity otherwise. */
  let bytesOfWhole = Number.POSITIVE_INFINITY;
  for (const [group, { num_rows }] of footer.row_groups.entries()) {
    const rows = Number(num_rows);
    if (rows === 0) continue;
    const chunks = chunksOf(footer, group, names);
    const stored = chunks.reduce((sum, one) => sum + Number(one.total_uncompressed_size), 0);
    const values = chunks.reduce((sum, { path_in_schema: path, num_values }) => {
      return sum + bytesOfValues(leaves.get(leafKey(path)) ?? [], rows, Number(num_values));
    }, 0);
    // A dictionary stores a value once, but each row of it takes memory.
    const rowBytes = Math.max(ROW_BYTES + values / rows, stored / rows);
    const last = pieces.at(-1);
    if (last !== undefined && bytesOfWhole + rows * rowBytes <= pieceBytes) {
      pieces[pieces.length - 1] = { ...last, to: start + rows };
      bytesOfWhole += rows * rowBytes;
    } else {
      const step = Math.max(1, Math.floor(pieceBytes / rowBytes));
      if (pieces.length + rows / step > MAX_PIECES) {
        throw new JobError(
          'INVALID_JOB',
          `${key}: expected at most ${MAX_PIECES} pieces of ${pieceBytes} bytes, got more (row group ${group}); cut the file`,
        );
      }
      for (let at = 0; at < rows; at += step) {
        pieces.push({ group, from: start + at, to: start + Math.min(at + step, rows) });
      }
      bytesOfWhole = rows <= step ? rows * rowBytes : Number.POSITIVE_INFINITY;
    }
    start += rows;
  }
  return pieces;
}

function groupIntoParts(pieces: readonly RowPiece[], partBytes: number, pieceBytes: number): Span[] {
  const max = Math.max(1, Math.floor(partBytes / pieceBytes));
  const parts: Span[] = [];
  for (let at = 0; at < pieces.length; at += max) {
    const rows = pieces.slice(at, at + max);
    parts.push({ start: rows[0]?.from ?? 0, end: rows.at(-1)?.to ?? 0, rows });
  }
  return parts.length > 0 ? parts : [{ start: 0, end: 0, rows: [] }];
}

/** Plans the pieces without a report. It removes the objects that ended the earlier run first. */
async function planWhatIsMissing(storage: JobStorage, folder: string, head: JobHead, run: number): Promise<void> {
  const key = planKey(folder, run);
  if ((await storage.get(key)) !== undefined) return;
  const reported = await placesUnder(storage, reportKeys(folder));
  const parts = await readParts(storage, planKey(folder, 1));
  const missing = parts.flatMap((part) => withoutReported(part, head, reported.get(part.part) ?? NONE));
  await removeEnd(storage, folder);
  // If nothing is missing, the map gets a part without pieces and the job is finished again.
  await storage.put(
    key,
    linesOfPlan(missing.length > 0 ? missing : parts.slice(0, 1).map((part) => ({ ...part, only: [] }))),
  );
}

/** Removes the objects that ended a job or its pieces, and the plans of its resumed runs. */
async function removeEnd(storage: JobStorage, folder: string): Promise<void> {
  for (const gone of [manifestKey, failureKey, cancelledKey]) await storage.remove(gone(folder));
  for (const those of [failedKeys, resumedPlanKeys]) {
    for await (const { key } of storage.list(those(folder))) await storage.remove(key);
  }
}

/** Returns the part with only the pieces it lacks, or nothing if it lacks none. */
function withoutReported(part: Part, { pieceBytes }: JobHead, reported: ReadonlySet<number>): Part[] {
  const count = piecesOf(part, pieceBytes);
  if (count === undefined) return [{ ...part, except: [...reported] }];
  const only = Array.from({ length: count }, (_, piece) => piece).filter((piece) => !reported.has(piece));
  return only.length > 0 ? [{ ...part, only }] : [];
}

const NONE: ReadonlySet<number> = new Set();

async function placesUnder(storage: JobStorage, prefix: string): Promise<Map<number, Set<number>>> {
  const places = new Map<number, Set<number>>();
  for await (const { key } of storage.list(prefix)) {
    const place = partAndPieceIn(key);
    if (place === undefined) continue;
    const pieces = places.get(place.part) ?? new Set();
    places.set(place.part, pieces.add(place.piece));
  }
  return places;
}

const FORMAT_BY_ENDING: readonly (readonly [ending: RegExp, format: Format])[] = [
  [/\.(jsonl|ndjson|json)$/i, 'jsonl'],
  [/\.[ct]sv$/i, 'csv'],
  [/\.(parquet|pq)$/i, 'parquet'],
];
const COMPRESSION_BY_ENDING: readonly (readonly [ending: RegExp, compression: Compression])[] = [
  [/\.(gz|gzip)$/i, 'gzip'],
  [/\.(zst|zstd)$/i, 'zstd'],
];

const KNOWN_ENDINGS = '.jsonl, .csv, .tsv (also with .gz or .zst) or .parquet';

type FormatOfObject = Pick<JobHead, 'format' | 'compression'>;

/** Returns the format in the spec, or that of the key's extension. @throws JobError if neither tells */
function formatOf(key: string, spec: Spec): FormatOfObject {
  const [ending, ended] = COMPRESSION_BY_ENDING.find(([pattern]) => pattern.test(key)) ?? [/$/, 'none'];
  const name = key.replace(ending, '');
  const ofName = FORMAT_BY_ENDING.find(([pattern]) => pattern.test(name))?.[1];
  const format = spec.format ?? ofName ?? (spec.separator === undefined ? undefined : 'csv');
  if (format !== undefined) return { format, compression: spec.compression ?? ended };
  throw new JobError(
    'INVALID_JOB',
    `${key}: expected a key that ends in ${KNOWN_ENDINGS}; rename it, or set the format`,
  );
}
