import type { StateMachine } from '../../../infra/jobs/jobDefinition.ts';

const TRIED = ['Retry', 'Catch'];
const ONWARD = ['Next', 'End'];

/** All that the local stack walks, by the type of the state. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  Task: [
    'Type',
    'Resource',
    'Parameters',
    'TimeoutSeconds',
    'ResultSelector',
    'ResultPath',
    'OutputPath',
    ...TRIED,
    ...ONWARD,
  ],
  Map: [
    'Type',
    'Label',
    'ItemReader',
    'ItemSelector',
    'MaxConcurrencyPath',
    'ItemProcessor',
    'ResultWriter',
    'ResultPath',
    ...TRIED,
    ...ONWARD,
  ],
  Choice: ['Type', 'Choices', 'Default'],
  Succeed: ['Type'],
  Fail: ['Type', 'ErrorPath', 'CausePath'],
};

const OF_PARTS: Readonly<Record<string, readonly string[]>> = {
  Retry: ['ErrorEquals', 'IntervalSeconds', 'MaxAttempts', 'BackoffRate', 'MaxDelaySeconds', 'JitterStrategy'],
  Catch: ['ErrorEquals', 'Next', 'ResultPath'],
  Choices: ['Variable', 'IsPresent', 'Next'],
  ItemReader: ['Resource', 'ReaderConfig', 'Parameters'],
  ReaderConfig: ['InputType'],
  ResultWriter: ['Resource', 'Parameters'],
  ProcessorConfig: ['Mode', 'ExecutionType'],
};

const OF_MACHINE = ['Comment', 'StartAt', 'States'];
const OF_PROCESSOR = ['ProcessorConfig', 'StartAt', 'States'];

/** Values that stand for what the local stack does; another one would be something else. */
const ONLY: Readonly<Record<string, string>> = {
  InputType: 'JSONL',
  Mode: 'DISTRIBUTED',
  ExecutionType: 'STANDARD',
  JitterStrategy: 'FULL',
};

/** Optimised integrations, after `arn:<partition>:states:::`. */
const RESOURCES = ['lambda:invoke', 's3:getObject', 's3:putObject'];

/**
 * The local stack does what the fields say that it knows, and nothing of others: a definition with one would run here
 * otherwise than on AWS.
 *
 * @throws Error naming the first field, type or value that it does not know
 */
export function refuseUnknownFields(machine: StateMachine, where = 'state machine', known = OF_MACHINE): void {
  refuseOthers(where, machine, known);
  for (const [name, state] of Object.entries(machine.States)) {
    const fields = FIELDS[state.Type];
    if (fields === undefined) throw unknown(`state '${name}'`, `type ${state.Type}`, Object.keys(FIELDS));
    refuseOthers(`state '${name}'`, state, fields);
    if (state.Type === 'Map') refuseUnknownFields(state.ItemProcessor, `processor of '${name}'`, OF_PROCESSOR);
  }
}

function refuseOthers(where: string, value: object, known: readonly string[]): void {
  for (const [key, part] of Object.entries(value)) {
    if (!known.includes(key)) throw unknown(where, `field ${key}`, known);
    const only = ONLY[key];
    if (only !== undefined && part !== only) throw unknown(where, `${key} ${part}`, [only]);
    if (key === 'Resource' && !RESOURCES.some((name) => part.endsWith(`:states:::${name}`))) {
      throw unknown(where, `resource ${part}`, RESOURCES);
    }
    const ofPart = OF_PARTS[key];
    if (ofPart !== undefined) for (const one of [part].flat()) refuseOthers(`${key} of ${where}`, one, ofPart);
  }
}

function unknown(where: string, got: string, known: readonly string[]): Error {
  return new Error(
    `${where}: expected only ${known.join(', ')}, which the local stack walks, got ${got}; teach cli/local/states to do ` +
      'what it means, or leave it out',
  );
}
