import { describe, expect, it } from '@jest/globals';
import validate from 'asl-validator';
import { jobDefinition } from '../../../../infra/jobs/jobDefinition.ts';
import { JOB_CODES } from '../../../../lambda/jobs/jobFiles.ts';

const ARN = 'arn:aws:lambda:eu-central-1:123456789012:function';
const FUNCTIONS = { scoreFunctionArn: `${ARN}:score`, controlFunctionArn: `${ARN}:control` };

/** The validator writes into what it is given. */
const problemsOf = (definition: unknown): string => validate(structuredClone(definition)).errorsText();

describe('the definition of jobs', () => {
  it.each(['aws', 'aws-cn'])('keeps to the rules of the Amazon States Language, in the partition %s', (partition) => {
    expect(problemsOf(jobDefinition({ ...FUNCTIONS, partition }))).toBe('');
  });

  it('would be found out: a state that leads nowhere', () => {
    const { States, ...machine } = jobDefinition(FUNCTIONS);
    expect(problemsOf({ ...machine, States: { ...States, Failed: { Type: 'Pass', Next: 'Nowhere' } } })).toContain(
      'Nowhere',
    );
  });

  it('calls the function with models to plan, score and skip, and the other to finish and explain', () => {
    const text = JSON.stringify(jobDefinition(FUNCTIONS));
    const calls = [...text.matchAll(/"FunctionName":"[^"]*:(\w+)","Payload(?:\.\$)?":(?:"\$"|\{"action":"(\w+)")/g)];
    expect(calls.map(([, called, action]) => [called, action])).toEqual([
      ['score', 'plan'],
      ['score', undefined],
      ['score', 'skip'],
      ['control', 'finish'],
      ['control', 'explain'],
    ]);
  });

  it('ends with the first refusal, makes other calls twice again, and waits for concurrency as often as it takes', () => {
    type Rule = { readonly ErrorEquals: readonly string[]; readonly MaxAttempts: number; readonly Next: string };
    const rulesOf: Record<string, Rule[][]> = { Retry: [], Catch: [] };
    JSON.parse(JSON.stringify(jobDefinition(FUNCTIONS)), (key, value) => {
      rulesOf[key]?.push(value);
      return value;
    });
    const ruleFor = (error: string) => (rules: readonly Rule[]) =>
      rules.find(({ ErrorEquals }) => ErrorEquals.includes(error) || ErrorEquals.includes('States.ALL'));
    const attemptsAfter = (error: string) => rulesOf.Retry?.map((rules) => ruleFor(error)(rules)?.MaxAttempts);
    const statesAfter = (error: string) => rulesOf.Catch?.map((rules) => ruleFor(error)(rules)?.Next);

    for (const code of JOB_CODES) {
      expect([code, attemptsAfter(code)]).toEqual([code, Array(5).fill(0)]);
      expect([code, statesAfter(code)]).toEqual([code, ['Explain', 'Ended', 'Explain', 'Explain']]);
    }
    expect(attemptsAfter('Runtime.ExitError')).toEqual(Array(5).fill(2));
    expect(statesAfter('Runtime.ExitError')).toEqual(['Explain', 'Skip', 'Explain', 'Explain']);
    expect(attemptsAfter('Lambda.TooManyRequestsException')).toEqual(Array(5).fill(1_000));
  });

  it('names no bucket: an execution is told', () => {
    expect(JSON.stringify(jobDefinition(FUNCTIONS))).not.toContain('arn:aws:s3');
  });
});
