import { describe, expect, it } from '@jest/globals';
import { Stack } from 'aws-cdk-lib';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { plainText } from '../../../infra/constructs/problems.ts';
import type { BatchScoring, BatchScoringProps } from '../../../infra/index.ts';
import { createScoring, createStack, templateOf } from '../../helpers/stacks.ts';
import { actionsOf, policiesOf, resourcesOf, roleIn } from '../policies.ts';

const IN = '<Bucket>/in/*';
const OUT = '<Bucket>/out/*';
const LISTS = ['s3:ListBucket <Bucket> of in/*', 's3:ListBucket <Bucket> of out/*'];
const MACHINE = 'arn:aws:states:<Region>:<Account>:stateMachine:<Name>';
const EXECUTION = 'arn:aws:states:<Region>:<Account>:execution:<Name>';

function scoringWith(props: Partial<BatchScoringProps> = {}, stack = createStack()): BatchScoring {
  const scoring = createScoring({ jobs: { inputPrefix: 'in/', outputPrefix: 'out/' }, ...props }, stack);
  scoring.grantSubmitJobs(roleIn(scoring, 'Someone'));
  return scoring;
}

/** What a role may do, one line for each action on each resource; what a log or a key needs is left out. */
function rightsOf(scoring: BatchScoring, role: string): string[] {
  const lines = policiesOf(templateOf(scoring), role).flatMap((statement) =>
    actionsOf(statement).flatMap((action) =>
      resourcesOf(statement).map((resource) => `${action} ${named(resource)}${condition(statement.Condition)}`),
    ),
  );
  return lines.filter((line) => !/^(logs|kms):/.test(line)).toSorted();
}

function condition(of: unknown): string {
  const prefix = (of as { StringLike?: Record<string, string> } | undefined)?.StringLike?.['s3:prefix'];
  return prefix === undefined ? '' : ` of ${prefix}`;
}

function named(resource: unknown): string {
  return plainText(resource)
    .replace(/<ScoringJobs(Score|Control)Function\w+\.Arn>/, '<$1>')
    .replace(/<ScoringJobsBucket\w+\.Arn>/, '<Bucket>')
    .replace('<AWS::Partition>', 'aws')
    .replace('<AWS::Region>', '<Region>')
    .replace('<AWS::AccountId>', '<Account>')
    .replace(/Test-Scoring-Jobs-\w+/, '<Name>');
}

describe('the function that scores jobs', () => {
  it('reads files and what jobs wrote, writes what jobs write, and deletes what ended a job alone', () => {
    expect(rightsOf(scoringWith(), 'JobsScoreRole')).toEqual([
      's3:DeleteObject <Bucket>/out/*/cancelled',
      's3:DeleteObject <Bucket>/out/*/failed/*',
      's3:DeleteObject <Bucket>/out/*/failure.json',
      's3:DeleteObject <Bucket>/out/*/manifest.json',
      `s3:GetObject ${IN}`,
      `s3:GetObject ${OUT}`,
      ...LISTS,
      `s3:PutObject ${OUT}`,
    ]);
  });

  it('reads models in S3', () => {
    const scoring = scoringWith({ models: `s3://models/${'0'.repeat(64)}` });
    expect(rightsOf(scoring, 'JobsScoreRole')).toContain(`s3:GetObject arn:aws:s3:::models/${'0'.repeat(64)}/*`);
  });
});

describe('the function that starts and ends jobs', () => {
  it('may start the state machine besides, and no other', () => {
    expect(rightsOf(scoringWith(), 'JobsControlRole')).toEqual([
      `s3:GetObject ${IN}`,
      `s3:GetObject ${OUT}`,
      ...LISTS,
      `s3:PutObject ${OUT}`,
      `states:StartExecution ${MACHINE}`,
    ]);
  });
});

describe('the state machine', () => {
  it('calls the two functions, reads plans, writes answers, and starts and stops its own children', () => {
    expect(rightsOf(scoringWith(), 'JobsStateMachineRole')).toEqual([
      'lambda:InvokeFunction <Control>',
      'lambda:InvokeFunction <Score>',
      's3:AbortMultipartUpload <Bucket>/out/*/map/*',
      's3:GetObject <Bucket>/out/*/map/*',
      's3:GetObject <Bucket>/out/*/plan.jsonl',
      's3:GetObject <Bucket>/out/*/resume-*.jsonl',
      's3:ListMultipartUploadParts <Bucket>/out/*/map/*',
      's3:PutObject <Bucket>/out/*/map/*',
      `states:DescribeExecution ${EXECUTION}/Parts:*`,
      `states:DescribeExecution ${EXECUTION}:*`,
      `states:StartExecution ${MACHINE}`,
      `states:StopExecution ${EXECUTION}/Parts:*`,
      `states:StopExecution ${EXECUTION}:*`,
    ]);
  });
});

describe('grantSubmitJobs', () => {
  it('lets someone put files, and start, look at, cancel, resume and fetch jobs, and delete nothing', () => {
    expect(rightsOf(scoringWith(), 'Someone')).toEqual([
      `s3:GetObject ${IN}`,
      `s3:GetObject ${OUT}`,
      ...LISTS,
      `s3:PutObject ${IN}`,
      's3:PutObject <Bucket>/out/*/cancelled',
      `states:DescribeExecution ${EXECUTION}:*`,
      `states:StartExecution ${MACHINE}`,
      `states:StopExecution ${EXECUTION}:*`,
    ]);
  });
});

describe('a key of your own', () => {
  const ROLES = ['JobsScoreRole', 'JobsControlRole', 'JobsStateMachineRole', 'Someone'];

  function actionsOnKey(scoring: BatchScoring, key: Key, role: string): string[] {
    const arn = Stack.of(scoring).resolve(key.keyArn);
    const statements = policiesOf(templateOf(scoring), role).filter(
      (statement) => JSON.stringify(statement.Resource) === JSON.stringify(arn) && statement.Condition === undefined,
    );
    return [...new Set(statements.flatMap(actionsOf))].toSorted();
  }

  it.each(ROLES)('can be used by %s to read and write, and no more', (role) => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key');
    const scoring = scoringWith({ encryptionKey }, stack);
    expect(actionsOnKey(scoring, encryptionKey, role)).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
  });

  it.each(ROLES)('is taken for that of an existing bucket whose key is not known, by %s too', (role) => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key');
    const bucket = Bucket.fromBucketName(stack, 'Files', 'files');
    const scoring = scoringWith({ encryptionKey, jobs: { bucket } }, stack);
    expect(actionsOnKey(scoring, encryptionKey, role)).toEqual(
      expect.arrayContaining(['kms:Decrypt', 'kms:GenerateDataKey*']),
    );
  });

  it('which was another before still opens what was put then', () => {
    const stack = createStack();
    const formerEncryptionKey = new Key(stack, 'Former');
    const scoring = scoringWith({ formerEncryptionKey }, stack);
    for (const role of ['JobsScoreRole', 'JobsControlRole', 'Someone']) {
      expect(actionsOnKey(scoring, formerEncryptionKey, role)).toEqual(['kms:Decrypt']);
    }
  });
});
