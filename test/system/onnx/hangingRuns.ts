/**
 * Has a model hang again and again, in a process of its own that its stuck threads would keep for ever. Takes the folder
 * of the models `turns` and `other`; prints what became of the runs as JSON, and ends with code 7.
 */
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { isFailure } from '../../../lambda/core/failure.ts';
import { type Model, RunAbandonedError } from '../../../lambda/core/model.ts';
import { endProcess } from '../../../lambda/hosts/endProcess.ts';
import { openRepository } from '../../../lambda/onnx/repository.ts';

const FOR_EVER = 4e12;

/** What became of a run: what it gave, or how it was given up. */
type Fate = number | 'left behind' | 'withdrawn';

const repository = await openRepository({
  directory: process.argv[2] ?? '',
  maxBatchRows: 512,
  maxBatchElements: 4_194_304,
  providers: ['cpu'],
  allowProviderFallback: false,
  preload: true,
  warn: (message) => void process.stderr.write(`${message}\n`),
});

async function modelNamed(name: string): Promise<Model> {
  const model = await repository.find(name, undefined);
  if (isFailure(model)) throw new Error(model.message);
  return model;
}

async function run(model: Model, turns: number, signal?: AbortSignal): Promise<Fate> {
  const data = BigInt64Array.of(BigInt(turns));
  try {
    const { outputs } = await model.run([{ name: 'turns', datatype: 'INT64', shape: [1], data }], signal);
    return Number(outputs[0]?.data[0]);
  } catch (error) {
    if (!(error instanceof RunAbandonedError)) throw error;
    return error.ranMs === undefined ? 'withdrawn' : 'left behind';
  }
}

/** A run that never ends, inside of ONNX Runtime: the run before it left the model open. */
async function startHanging(model: Model): Promise<{ giveUp(): Promise<Fate> }> {
  await run(model, 1);
  const controller = new AbortController();
  const fate = run(model, FOR_EVER, controller.signal);
  await turnOfTheLoop();
  return {
    giveUp() {
      controller.abort();
      return fate;
    },
  };
}

const turns = await modelNamed('turns');
const other = await modelNamed('other');

const first = await startHanging(turns);
const otherModelMeanwhile = await run(other, 2);
const abandoned = await first.giveUp();
const nextOfThisModel = await run(turns, 3);

const second = await startHanging(turns);
const withdrawal = new AbortController();
const withdrawn = run(turns, FOR_EVER, withdrawal.signal);
const queued = run(turns, 4);
withdrawal.abort();
const behindAHang = [await withdrawn, await second.giveUp(), await queued];

const hangsInARow: Fate[] = [];
for (let hang = 0; hang < 10; hang++) hangsInARow.push(await (await startHanging(turns)).giveUp());
const afterThem = await run(turns, 5);

const stuckRuns = repository.stuckRuns().size;
await repository.close();
const ofOne = { abandoned, otherModelMeanwhile, nextOfThisModel, behindAHang };
process.stdout.write(JSON.stringify({ ...ofOne, hangsInARow, afterThem, stuckRuns }));
await endProcess(7);
