import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CULPRIT, culpritModel, identityModel, lookupModel, turningModel } from '../../helpers/onnxModels.ts';
import type { RepositoryFiles } from '../../helpers/openModels.ts';

/** What the messages ask for: models without errors, and one whose transform and graph end or hang their process for some. */
const MODELS = {
  'echo/1/model.onnx': identityModel(),
  'lookup/1/model.onnx': lookupModel(),
  'lookup/config.json': { sessionOptions: { logSeverityLevel: 4 } },
  'turns/1/model.onnx': turningModel(),
  'slow/1/model.onnx': lookupModel(),
  'slow/config.json': { transform: 'transform.mjs' },
  'slow/transform.mjs': `export async function decode({ ms }) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [1] }];
  }`,
  'culprit/1/model.onnx': culpritModel(),
  'culprit/config.json': { batching: 'trust', transform: 'transform.mjs', sessionOptions: { logSeverityLevel: 4 } },
  // A stack that overflows in native code ends a process so.
  'culprit/transform.mjs': `export function decode({ index }) {
    if (index === 7004) process.abort();
    if (index === 7005) process.kill(process.pid, 'SIGSEGV');
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }];
  }`,
} satisfies RepositoryFiles;

export async function putModels(directory: string): Promise<void> {
  for (const [path, contents] of Object.entries(MODELS)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    const isRaw = typeof contents === 'string' || contents instanceof Uint8Array;
    await writeFile(join(directory, path), isRaw ? contents : JSON.stringify(contents));
  }
}

/** What a message is, and what is written under its ID: its outputs' data, or a code. Of several requests an array. */
export interface Sent {
  readonly isCulprit: boolean;
  readonly isPayload: boolean;
  readonly body: string;
  readonly expected: string;
}

const CULPRITS = {
  [CULPRIT.traps]: 'MODEL_CRASHED',
  [CULPRIT.fills]: 'OUT_OF_MEMORY',
  7004: 'MODEL_CRASHED',
  7005: 'MODEL_CRASHED',
} as const;

/** One that ends its host. @param turn chooses how; every ninth hangs instead */
export function culprit(turn: number): Sent {
  const kinds = Object.entries(CULPRITS);
  const [index, code] =
    turn % 9 === 8 ? [CULPRIT.hangs, 'RUN_TIMED_OUT'] : (kinds[turn % kinds.length] as [string, string]);
  return sent({ model_name: 'culprit', index: Number(index) }, code, { isCulprit: true });
}

/** A second of CPU time. */
const TURNS = 500_000;

/** One that takes a second or more in native code, and is answered with its scores all the same. */
export function longRun(): Sent {
  const inputs = [{ name: 'turns', datatype: 'INT64', shape: [1], data: [TURNS] }];
  return sent({ model_name: 'turns', inputs }, [TURNS]);
}

/** The n-th message of a producer. */
export function message(n: number, random: () => number): Sent {
  const drawn = 100 * random();
  if (drawn < 70) return sent(echo(n), ECHO(n));
  if (drawn < 80) return sent({ model_name: 'culprit', index: n % 7000 }, [10 * (n % 7000)]);
  if (drawn < 90) {
    const several = Array.from({ length: 2 + (n % 9) }, (_, index) => n + index / 16);
    return sent(several.map(echo), several.map(ECHO));
  }
  if (drawn < 92) return sent(echo(n), ECHO(n), { isPayload: true });
  if (drawn < 94) return sent({ model_name: 'slow', ms: 1_500 * random() ** 4 }, [20]);
  if (drawn < 96) return sent(lookup(n % 3), [10 * ((n % 3) + 1)]);
  if (drawn < 97) return sent(lookup(5), 'RUN_FAILED');
  if (drawn < 98) return sent({ ...echo(n), model_name: 'none' }, 'UNKNOWN_MODEL');
  if (drawn < 99)
    return sent({ model_name: 'echo', inputs: [{ ...echo(n).inputs[0], shape: [1, 2] }] }, 'INVALID_SHAPE');
  return { isCulprit: false, isPayload: false, body: `{"n":${n}`, expected: JSON.stringify('INVALID_JSON') };
}

function sent(body: object, expected: unknown, what: Partial<Sent> = {}): Sent {
  return {
    isCulprit: false,
    isPayload: false,
    ...what,
    body: JSON.stringify(body),
    expected: JSON.stringify(expected),
  };
}

/** Three numbers that no other message has, so that an answer under another ID is seen. */
const ECHO = (n: number) => [n, n + 0.5, -n];

export function echo(n: number) {
  return { model_name: 'echo', inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 3], data: ECHO(n) }] };
}

function lookup(index: number) {
  return { model_name: 'lookup', inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }] };
}

interface Answer {
  readonly code?: string;
  readonly outputs?: readonly { readonly data: readonly unknown[] }[];
}

/** What `Sent.expected` says, of an answer. */
export function gist(answer: Answer | readonly Answer[]): string {
  // Digits that FP32 does not hold are left out of its text, which is read as FP32.
  const read = (one: unknown): unknown => (typeof one === 'number' ? Math.fround(one) : one);
  const of = ({ code, outputs }: Answer): unknown => code ?? outputs?.[0]?.data.map(read);
  return JSON.stringify('length' in answer ? answer.map(of) : of(answer));
}
