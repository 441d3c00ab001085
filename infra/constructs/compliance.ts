import { Validations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { acknowledgeStandards } from './base/acknowledge.ts';

/** Rules that HIPAA and NIST 800-53 share and that no setting of a deployment could follow in earnest. */
const OF_STANDARDS = {
  DynamoDBInBackupPlan: 'The table has point-in-time recovery, and its results expire after days',
  IAMNoInlinePolicy: 'Each policy is one role its own: a managed one would only be shared by mistake',
  LambdaDLQ:
    'Mappings and the state machine of jobs call again: dead letters are those of the request queue. S3 tells three ' +
    'times of a file for a job; an alarm says when that was in vain',
  S3BucketLoggingEnabled: 'Server access logs would double the requests; CloudTrail data events serve an audit',
  S3BucketReplicationEnabled: 'What is lost with a region is scored again there: requests are kept by their producers',
  S3BucketVersioningEnabled:
    "Every object has a key of its own, and what is written to it again is the same; files for jobs are their owners'",
};

const OF_SERVERLESS = {
  LambdaDLQ: OF_STANDARDS.LambdaDLQ,
  LambdaEventSourceMappingDestination:
    'A mapping of SQS has no destination on failure: the queue redrives to its dead letters',
  SQSRedrivePolicy: 'Dead letters and results are the end: no consumer can fail on them, and they expire',
};

/** Says why the packs of cdk-nag for HIPAA, NIST 800-53 and serverless apps find what they find in a deployment. */
export function acknowledgePacks(scope: Construct): void {
  for (const [rule, reason] of Object.entries(OF_STANDARDS)) acknowledgeStandards(scope, rule, reason);
  for (const [rule, reason] of Object.entries(OF_SERVERLESS)) {
    Validations.of(scope).acknowledge({ id: `Serverless-${rule}`, reason });
  }
}
