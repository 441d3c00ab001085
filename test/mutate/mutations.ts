/** A small edit that breaks a promise. The tests named are the nearest ones: one of them must turn red. */
export interface Mutation {
  readonly breaks: string;
  readonly file: string;
  /** Text that the file has exactly once. */
  readonly from: string;
  readonly to: string;
  /** Test files or folders below `test/`. */
  readonly tests: readonly string[];
}

const HOSTS = ['unit/hosts', 'guarantees/acknowledged.test.ts', 'guarantees/written.test.ts'];
const CULPRITS = ['guarantees/failsAlone.test.ts', 'system/scorer.test.ts', 'system/culprits.test.ts'];
const PLAN = ['unit/core/plan', 'unit/core/scoreRecords'];
const DECODE = ['unit/core/decode', 'guarantees/limits.test.ts'];
const PROOF = [
  'contract/onnx/proveRows.test.ts',
  'contract/onnx/oneOperator.test.ts',
  'contract/onnx/decideBatching.test.ts',
];
const ALONE = ['unit/core/scoreRecords', 'guarantees/batchedIsAlone.test.ts'];
const WORKER = ['unit/worker', 'system/worker'];
const GRANTS = ['cdk/permissions.test.ts', 'cdk/jobs/permissions.test.ts'];
const PARQUET = ['system/cli/hostileFiles.test.ts', 'unit/jobs'];

/** Chosen once, in places that carry promises. Fix a stale one where the code moved; do not pick an easier place. */
export const MUTATIONS: readonly Mutation[] = [
  // Acknowledgement after the write
  m(
    'a failed write is acknowledged',
    'lambda/hosts/records.ts',
    "} else if (isTransient(failed)) outcomes[one.index] ??= { status: 'retry', failure: failed };",
    '} else if (isTransient(failed)) outcomes[one.index] ??= outcomeOf(one.answer);',
    HOSTS,
  ),
  m(
    'a status that is missing counts as written',
    'lambda/hosts/records.ts',
    'if (status?.written === true) return undefined;',
    'if (status?.written !== false) return undefined;',
    HOSTS,
  ),
  m(
    'the first record is acknowledged, whatever its outcome',
    'lambda/hosts/createHandler.ts',
    "const isAnswered = (index: number) => outcomes[index]?.status === 'answered';",
    "const isAnswered = (index: number) => outcomes[index]?.status !== 'retry' || index === 0;",
    HOSTS,
  ),
  m(
    'an entry that SQS does not name counts as sent',
    'lambda/aws/sqsMessages.ts',
    '} else if (isOdd || !done.has(String(position))) {',
    '} else if (isOdd) {',
    ['contract/aws'],
  ),
  m(
    'an item that DynamoDB had no capacity for counts as written',
    'lambda/aws/resultTable.ts',
    '.filter(({ result }) => ids.has(result.messageId))',
    '.filter(({ result }) => ids.has(result.messageId) && ids.size === batch.length)',
    ['contract/aws'],
  ),
  m(
    'a result counts as written when one of several stores has it',
    'lambda/aws/storeEntries.ts',
    'const byStore = await Promise.all(writers.map((writer) => writer.write(fitting, signal)));',
    'const byStore = await Promise.all(writers.slice(0, 1).map((writer) => writer.write(fitting, signal)));',
    ['contract/aws', 'guarantees/acknowledged.test.ts'],
  ),
  m(
    'a worker deletes what is to come again',
    'lambda/hosts/consumer.ts',
    "if (outcome?.status === 'answered') return acknowledge;",
    'if (outcome !== undefined) return acknowledge;',
    HOSTS,
  ),
  // Order in FIFO
  m(
    'results behind a record that is retried are written',
    'lambda/hosts/records.ts',
    'if (next === undefined || outcomes[next] === undefined) return left;',
    'if (next === undefined || outcomes[next] === undefined) return left;\n    if (group.length > 1) return left.slice(1);',
    HOSTS,
  ),
  m(
    'a FIFO result is written before those ahead of it are ready',
    'lambda/hosts/records.ts',
    'if (one === undefined) break;\n    ready.push(one);',
    'if (one === undefined) continue;\n    ready.push(one);',
    HOSTS,
  ),
  m(
    'messages overtake one that is sent again',
    'lambda/aws/sqsMessages.ts',
    'const waits = this.#options.isFifo && refusals.some(({ again }) => again);',
    'const waits = false;',
    ['contract/aws'],
  ),
  m(
    'a packed FIFO result is dropped as a duplicate of its first part',
    'lambda/aws/resultQueue.ts',
    "return ids.length === 1 ? String(ids[0]) : createHash('sha256')",
    "return ids.length > 0 ? String(ids[0]) : createHash('sha256')",
    ['contract/aws'],
  ),
  m(
    'records of one receive are dispatched apart on a FIFO queue',
    'lambda/hosts/modelQueues.ts',
    'if (isFull && !(keepsTogether && queue.waiting[count - 1]?.receive === receive)) break;',
    'if (isFull) break;',
    WORKER,
  ),
  // One answer per message
  m(
    'two results of one ID share a message',
    'lambda/aws/resultQueue.ts',
    'return toEntry(result, isRepeated);',
    'return toEntry(result, false);',
    ['contract/aws'],
  ),
  m(
    'a body that has its reply is scored again after a loss',
    'lambda/scorer/scoringCall.ts',
    'const fresh = replies.filter(({ of }) => this.#pending.delete(of));',
    'const fresh = replies.filter(({ of }) => this.#pending.has(of));',
    CULPRITS,
  ),
  // Survives: a late reply is at worst a result that is written twice, which docs/guarantees.md allows.
  m(
    'an invocation scores until its deadline, and has no time to hand back',
    'lambda/hosts/createHandler.ts',
    'Math.max(0, context.getRemainingTimeInMillis() - leftMs)',
    'Math.max(0, context.getRemainingTimeInMillis())',
    ['guarantees/deadline.test.ts', ...HOSTS],
  ),
  // Conviction
  m(
    'a request is convicted that ran beside others',
    'lambda/scorer/scoringCall.ts',
    'for (const index of blamed) if (this.#pending.has(index)) this.#suspects.set(index, newSuspect());',
    'for (const index of blamed) if (this.#pending.has(index)) await this.#pass([this.#errorReply(index, failureOf(loss))]);',
    CULPRITS,
  ),
  m(
    'a slow request is convicted after a tenth of its time',
    'lambda/scorer/scoringCall.ts',
    'const WHOLE_SHARE = 0.85;',
    'const WHOLE_SHARE = 0.1;',
    CULPRITS,
  ),
  m(
    'a first SIGKILL convicts',
    'lambda/scorer/scoringCall.ts',
    "if (loss.signal !== 'SIGKILL' || suspect.crashes > 1)",
    "if (loss.signal !== 'SIGKILL' || suspect.crashes > 0)",
    CULPRITS,
  ),
  m(
    'a packed body fails as a whole for one of its requests',
    'lambda/scorer/scoringCall.ts',
    '} else suspect.refused.set(position, failed);',
    '} else await this.#pass([this.#errorReply(index, failed)]);',
    CULPRITS,
  ),
  m(
    'a request that fails keeps those of its run from their scores',
    'lambda/core/score.ts',
    'return !isTransient(failed) && batch.parts.length > 1 ? halve(batch) : undefined;',
    'return isTransient(failed) && batch.parts.length > 1 ? halve(batch) : undefined;',
    ALONE,
  ),
  // Proof
  m(
    'a softmax over the rows counts as independent',
    'lambda/onnx/rules/axes.ts',
    'refuseAlong(data, axesOfStep(step, shapeOf(data).length));\n    return plain(data);',
    'axesOfStep(step, shapeOf(data).length);\n    return plain(data);',
    PROOF,
  ),
  m(
    'a sum over the rows counts as independent',
    'lambda/onnx/rules/axes.ts',
    "if (data.kind !== 'equal')\n      mixes(",
    "if (data.kind === 'count')\n      mixes(",
    PROOF,
  ),
  m(
    'an old softmax works along one axis',
    'lambda/onnx/rules/axes.ts',
    'return version < 13 ? fromAxis(axis, rank) : [axis];',
    'return [axis];',
    PROOF,
  ),
  m(
    'an operator that is not in the table counts as independent',
    'lambda/onnx/proveRows.ts',
    'if (isFixed && !node.hasGraphs) return ofUnknownShape();\n      throw',
    'if (!node.hasGraphs) return ofUnknownShape();\n      throw',
    PROOF,
  ),
  // Survives: the rule of each operator refuses it first; the check is for rules to come.
  m(
    'the number of rows may enter the data',
    'lambda/onnx/rules/families.ts',
    "if (output.kind === 'rows') mixes('the number of rows enters the data');",
    '',
    PROOF,
  ),
  // Batched equals alone
  m(
    'models that mix rows are batched',
    'lambda/core/verify.ts',
    "(model.sharing === 'never' || watched.get(model)?.isStopped ? 'alone' : 'together')",
    "(watched.get(model)?.isStopped ? 'alone' : 'together')",
    ALONE,
  ),
  m(
    'a difference does not stop batching',
    'lambda/core/verify.ts',
    'state.isStopped = true;',
    'state.isStopped = false;',
    ALONE,
  ),
  m(
    'an integer may differ',
    'lambda/core/difference.ts',
    "if (accuracy === undefined || typeof x !== 'number' || typeof y !== 'number') return at;",
    "if (typeof x !== 'number' || typeof y !== 'number') return at;\n      if (accuracy === undefined) continue;",
    ['unit/core/difference.test.ts'],
  ),
  m(
    'a padding row is empty',
    'lambda/core/stack.ts',
    'for (; row < batch.paddedRows; row++) copyInto(data, row * rowElements, last);',
    'for (; row < batch.paddedRows - 1; row++) copyInto(data, row * rowElements, last);',
    ['unit/core/stack'],
  ),
  m(
    'a run that returns other rows is answered',
    'lambda/core/stack.ts',
    'if (shape[0] !== batch.paddedRows) {',
    'if ((shape[0] as number) < batch.paddedRows) {',
    ['unit/core'],
  ),
  m(
    'requests of another shape share a run',
    'lambda/core/plan.ts',
    'if (axis !== ragged) signature',
    'if (axis !== ragged && axis > 1) signature',
    PLAN,
  ),
  // Plan limits
  m(
    'a run exceeds its elements',
    'lambda/core/plan.ts',
    'const rows = Math.min(maxBatchRows, affordable);',
    'const rows = maxBatchRows;',
    PLAN,
  ),
  m(
    'a run exceeds its rows by one',
    'lambda/core/plan.ts',
    'const toRow = Math.min(request.rows, fromRow + max - rows);',
    'const toRow = Math.min(request.rows, fromRow + max - rows + 1);',
    PLAN,
  ),
  m(
    'a request is cut that must stay whole',
    'lambda/core/plan.ts',
    'if (request.rows > max && !mayCut) return',
    'if (request.rows > 2 * max && !mayCut) return',
    PLAN,
  ),
  m(
    'a run is started that cannot finish',
    'lambda/core/run.ts',
    'if (remainingMs >= neededMs && isSmallEnough)',
    'if (remainingMs >= 0 && isSmallEnough)',
    [...PLAN, 'guarantees/deadline.test.ts'],
  ),
  m(
    'runs under way are not counted before the deadline',
    'lambda/core/run.ts',
    'const neededMs = schedule.busyMs(model) + (expectedMs ?? 0)',
    'const neededMs = (expectedMs ?? 0)',
    [...PLAN, 'guarantees/deadline.test.ts'],
  ),
  m(
    'a run that exhausted the memory is made as large again',
    'lambda/core/run.ts',
    'if (batch.parts.length > 1) memory.ranOut(batch.model, elementsIn(batch));',
    '',
    [...PLAN, 'unit/core/run'],
  ),
  // Decode checks
  m(
    'a number beyond FP32 becomes an infinity',
    'lambda/core/values.ts',
    'if (!Number.isFinite(target[i])) return i;\n    } else {',
    '} else {',
    DECODE,
  ),
  m(
    'a number beyond 2^53 is rounded',
    'lambda/core/values.ts',
    "const isWhole = Number.isSafeInteger(value) || typeof value === 'boolean';",
    "const isWhole = Number.isInteger(value) || typeof value === 'boolean';",
    DECODE,
  ),
  m(
    'an integer is wrapped at its range',
    'lambda/core/values.ts',
    '|| value < min || value > max) return i;',
    '|| value < min) return i;',
    DECODE,
  ),
  m(
    'a text with U+0000 is cut',
    'lambda/core/values.ts',
    "return !text.includes('\\0') && text.isWellFormed();",
    'return text.isWellFormed();',
    DECODE,
  ),
  m(
    'a nested array of another nesting is taken',
    'lambda/core/values.ts',
    'if (!Array.isArray(child) || child.length !== dim) {',
    'if (!Array.isArray(child)) {',
    DECODE,
  ),
  m(
    'a byte of BOOL may be 2',
    'lambda/core/values.ts',
    'const wrongAt = data.findIndex((element) => element > 1);',
    'const wrongAt = data.findIndex((element) => element > 2);',
    DECODE,
  ),
  m(
    'an input twice is taken',
    'lambda/core/requestInputs.ts',
    'if (seenAt !== undefined) {',
    'if (seenAt !== undefined && seenAt < 0) {',
    DECODE,
  ),
  m(
    'a request has any number of rows',
    'lambda/core/requestInputs.ts',
    'if (rows > limits.maxRequestRows) return tooManyRows(rows, path, limits);',
    '',
    DECODE,
  ),
  // Expiry
  m(
    'a request past its expires_at is scored',
    'lambda/core/request.ts',
    'if (lateMs < 0) return undefined;',
    'if (lateMs < 3_600_000) return undefined;',
    ['unit/core', 'contract/lambda'],
  ),
  m(
    'a message older than maxAge is scored',
    'lambda/hosts/records.ts',
    'if (seconds <= maxAgeSeconds) return [];',
    'if (seconds <= 2 * maxAgeSeconds) return [];',
    [...HOSTS, 'contract/lambda', 'unit/core'],
  ),
  m(
    'a result in the table outlives its time',
    'lambda/aws/resultTable.ts',
    'String(Math.floor(now() / 1000) + ttlSeconds)',
    'String(Math.floor(now()) + ttlSeconds)',
    ['contract/aws'],
  ),
  // Places and memory
  m(
    'another bucket is read',
    'lambda/aws/payloads.ts',
    'if (pointer.bucket !== bucket) return anotherBucket(bucket, pointer);',
    '',
    ['contract/aws', 'contract/lambda'],
  ),
  m(
    'a result is read as a request',
    'lambda/aws/payloads.ts',
    'if (!liesUnder(requests, pointer.key)) return noRequest(requests, pointer);',
    '',
    ['contract/aws', 'contract/lambda'],
  ),
  m(
    'a payload beyond the limit is read whole',
    'lambda/aws/payloads.ts',
    "if (bytes > maxBytes) return tooLarge(pointer, maxBytes, 'more');",
    '',
    ['contract/aws'],
  ),
  // Visibility
  m(
    'a record is extended beyond twelve hours',
    'lambda/hosts/consumer.ts',
    'const MAX_HIDDEN_SECONDS = 43_200;',
    'const MAX_HIDDEN_SECONDS = 86_400;',
    WORKER,
  ),
  m(
    'a worker hands back while it polls',
    'lambda/hosts/consumer.ts',
    'if (draining !== undefined) await poller.stop();',
    '',
    [...WORKER, 'guarantees/acknowledged.test.ts'],
  ),
  m(
    'an outage spends the receives of a message within minutes',
    'lambda/aws/requestQueue.ts',
    'const step = Math.min(steps, Math.max(0, receiveCount - 1));',
    'const step = Math.min(steps, Math.max(0, receiveCount - 1) / 2);',
    ['contract/aws', 'guarantees/acknowledged.test.ts'],
  ),
  // Parquet
  m(
    'a column beyond the file is read',
    'lambda/jobs/parquetFooter.ts',
    'if (span.start < 4 || span.end > end) {',
    'if (span.start < 4) {',
    PARQUET,
  ),
  m(
    'a footer may claim any number of rows',
    'lambda/jobs/parquetFooter.ts',
    'if (most > ROWS_A_BYTE * bytes) throw',
    'if (most < 0) throw',
    PARQUET,
  ),
  // Grants
  m(
    'the host may read results as payloads',
    'infra/constructs/channels.ts',
    'grantRead(grantee, this.payloadBucket, requestKeys(this.#payloadPrefix));',
    "grantRead(grantee, this.payloadBucket, '');",
    GRANTS,
  ),
  m(
    'a host may delete items of the table',
    'infra/stores/tableStore.ts',
    "table.grant(grantee, 'dynamodb:BatchWriteItem');",
    "table.grant(grantee, 'dynamodb:BatchWriteItem', 'dynamodb:DeleteItem');",
    GRANTS,
  ),
  m(
    'dead letters may expire before they are redriven',
    'infra/constructs/checks.ts',
    'exceeds(retentionSeconds, deadSeconds) &&',
    'exceeds(deadSeconds, retentionSeconds) &&',
    ['cdk/warnings.test.ts'],
  ),
  m(
    'whoever reads may list a whole bucket',
    'infra/common/grants.ts',
    'conditions: { StringLike: {',
    'conditions: { StringLikeIfExists: {',
    GRANTS,
  ),
];

function m(breaks: string, file: string, from: string, to: string, tests: readonly string[]): Mutation {
  return { breaks, file, from, to, tests };
}

/** @throws Error if the text is not there exactly once */
export function applied({ breaks, file, from, to }: Mutation, text: string): string {
  const times = text.split(from).length - 1;
  if (times === 1) return text.replace(from, () => to);
  throw new Error(
    `'${breaks}' is stale: expected its text once in ${file}, found it ${times} times; adapt mutations.ts`,
  );
}
