import { describe, expect, it } from '@jest/globals';
import type { StateMachine } from '../../../../../infra/constructs/jobs/states.ts';
import { DEFINITION, runJob, wellAnswered } from './setup.ts';

type Loose = Record<string, unknown>;

/** The definition of jobs with something changed in it. */
function changed(change: (machine: { States: Record<string, Loose> } & Loose) => void): StateMachine {
  const machine = structuredClone(DEFINITION) as unknown as { States: Record<string, Loose> } & Loose;
  change(machine);
  return machine as unknown as StateMachine;
}

const map = (machine: { States: Record<string, Loose> }): Loose => machine.States['Score parts'] as Loose;
const child = (machine: { States: Record<string, Loose> }): Record<string, Loose> =>
  (map(machine).ItemProcessor as { States: Record<string, Loose> }).States;

describe('the local stack refuses to walk', () => {
  it.each<readonly [string, (machine: { States: Record<string, Loose> } & Loose) => void, string]>([
    [
      'a field of the machine',
      (machine) => (machine.QueryLanguage = 'JSONata'),
      'state machine: expected only what the local stack walks, got QueryLanguage',
    ],
    [
      'a field of a task',
      ({ States }) => (States.Plan = { ...States.Plan, HeartbeatSeconds: 5 }),
      'got HeartbeatSeconds',
    ],
    ['a field of the map', (machine) => (map(machine).ToleratedFailureCount = 1), 'got ToleratedFailureCount'],
    [
      'a field in a child',
      (machine) => (child(machine).More = { ...child(machine).More, Assign: {} }),
      'More: expected only what the local stack walks, got Assign',
    ],
    ['a field of a retrier', ({ States }) => (States.Plan = { ...States.Plan, Retry: [{ Odd: 1 }] }), 'got Odd'],
    [
      'another type',
      ({ States }) => (States.Plan = { Type: 'Wait' }),
      'Plan: expected only what the local stack walks, got Type "Wait"',
    ],
    [
      'another integration',
      ({ States }) => (States.Plan = { ...States.Plan, Resource: 'arn:aws:states:::sqs:sendMessage' }),
      'got Resource "arn:aws:states:::sqs:sendMessage"',
    ],
    [
      'another mode',
      (machine) => ((map(machine).ItemProcessor as Loose).ProcessorConfig = { Mode: 'INLINE' }),
      'got Mode "INLINE"',
    ],
    [
      'another comparison',
      (machine) => (child(machine).More = { Type: 'Choice', Choices: [{ Variable: '$.n', NumericEquals: 1 }] }),
      'got NumericEquals',
    ],
  ])('%s', async (_, change, sentence) => {
    await expect(runJob(wellAnswered, { machine: changed(change) })).rejects.toThrow(sentence);
  });
});

describe('a path', () => {
  it('that leads to nothing ends the execution, and no catcher takes it', async () => {
    const machine = changed(({ States }) => {
      States.Finish = { ...States.Finish, Parameters: { FunctionName: 'control', 'Payload.$': '$.nothing' } };
    });
    const { ended } = await runJob(wellAnswered, { machine });
    expect(ended).toMatchObject({
      status: 'FAILED',
      error: 'States.Runtime',
      cause: expect.stringContaining('$.nothing'),
    });
  });

  it.each(['$.parts[0]', '$..part', "States.Hash('x', 'MD5')"])(
    'of a kind that is not known is one of these: %s',
    async (path) => {
      const machine = changed(({ States }) => {
        States.Finish = { ...States.Finish, Parameters: { FunctionName: 'control', 'Payload.$': path } };
      });
      expect((await runJob(wellAnswered, { machine })).ended).toMatchObject({ error: 'States.Runtime' });
    },
  );
});

describe('a state that there is not', () => {
  it('ends the execution', async () => {
    const machine = changed(({ States }) => (States.Plan = { ...States.Plan, Next: 'Nowhere' }));
    expect((await runJob(wellAnswered, { machine })).ended).toMatchObject({ error: 'States.Runtime' });
  });
});
