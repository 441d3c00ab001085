import { describe, expect, it } from '@jest/globals';
import { Key } from 'aws-cdk-lib/aws-kms';
import type { BatchScoring, BatchScoringProps } from '../../../infra/index.ts';
import { createScoring, createStack } from '../../helpers/stacks.ts';
import { rightsOf, roleIn } from '../policies.ts';

const IN = '<JobsBucket>/in/*';
const OUT = '<JobsBucket>/out/*';
const LISTS = ['in/*', 'out/*'].map((keys) => `s3:ListBucket <JobsBucket> if {"StringLike":{"s3:prefix":"${keys}"}}`);
const MACHINE = 'arn:aws:states:REGION:ACCOUNT:stateMachine:<Jobs>';
const EXECUTION = 'arn:aws:states:REGION:ACCOUNT:execution:<Jobs>';

/** A deployment with jobs, and somebody who submits them. What docs/operations.md says of that is tested with it. */
function scoringWith(props: Partial<BatchScoringProps> = {}, stack = createStack()): BatchScoring {
  const scoring = createScoring({ jobs: { inputPrefix: 'in/', outputPrefix: 'out/' }, ...props }, stack);
  scoring.grantSubmitJobs(roleIn(scoring, 'Someone'));
  return scoring;
}

describe('with jobs, and nothing else', () => {
  it.each([
    [
      'the function that scores reads files and what jobs wrote, writes that, and deletes what ended a job',
      'JobsScoreRole',
      [
        's3:DeleteObject <JobsBucket>/out/*/cancelled',
        's3:DeleteObject <JobsBucket>/out/*/failed/*',
        's3:DeleteObject <JobsBucket>/out/*/failure.json',
        's3:DeleteObject <JobsBucket>/out/*/manifest.json',
        's3:DeleteObject <JobsBucket>/out/*/resume-*.jsonl',
        `s3:GetObject ${IN}`,
        `s3:GetObject ${OUT}`,
        ...LISTS,
        `s3:PutObject ${OUT}`,
      ],
    ],
    [
      'the function that starts and ends jobs starts the state machine, and no other',
      'JobsControlRole',
      [
        `s3:GetObject ${IN}`,
        `s3:GetObject ${OUT}`,
        ...LISTS,
        `s3:PutObject ${OUT}`,
        `states:StartExecution ${MACHINE}`,
      ],
    ],
    [
      'the state machine calls the functions, reads plans, writes answers, and starts and stops its own children',
      'JobsStateMachineRole',
      [
        'lambda:InvokeFunction <JobsControlFunction>',
        'lambda:InvokeFunction <JobsScoreFunction>',
        's3:AbortMultipartUpload <JobsBucket>/out/*/map/*',
        's3:GetObject <JobsBucket>/out/*/map/*',
        's3:GetObject <JobsBucket>/out/*/plan.jsonl',
        's3:GetObject <JobsBucket>/out/*/resume-*.jsonl',
        's3:ListMultipartUploadParts <JobsBucket>/out/*/map/*',
        's3:PutObject <JobsBucket>/out/*/map/*',
        `states:DescribeExecution ${EXECUTION}/Parts:*`,
        `states:DescribeExecution ${EXECUTION}:*`,
        `states:StartExecution ${MACHINE}`,
        `states:StopExecution ${EXECUTION}/Parts:*`,
        `states:StopExecution ${EXECUTION}:*`,
      ],
    ],
  ])('%s', (_, role, rights) => {
    // Logs have no rights that are narrower.
    expect(rightsOf(scoringWith(), role, '(?!logs)\\w+')).toEqual(rights);
  });

  it('models in S3 are read', () => {
    const scoring = scoringWith({ models: `s3://models/${'0'.repeat(64)}` });
    expect(rightsOf(scoring, 'JobsScoreRole')).toContain(`s3:GetObject arn:aws:s3:::models/${'0'.repeat(64)}/*`);
  });
});

describe('a key of your own', () => {
  const ROLES = ['JobsScoreRole', 'JobsControlRole', 'JobsStateMachineRole', 'Someone'];
  /** Without those on logs and executions, which have a condition. */
  const rightsToFiles = (scoring: BatchScoring, role: string): string[] =>
    rightsOf(scoring, role, 'kms').filter((right) => !right.includes(' if '));

  it('can be used to read and write, and no more', () => {
    const stack = createStack();
    const scoring = scoringWith({ encryptionKey: new Key(stack, 'Key') }, stack);
    for (const role of ROLES) {
      expect(rightsToFiles(scoring, role)).toEqual(['kms:Decrypt <Key>', 'kms:GenerateDataKey <Key>']);
    }
  });
});
