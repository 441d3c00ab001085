import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type App, Duration, type IPolicyValidationPlugin, Stack, Validations } from 'aws-cdk-lib';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { GatewayVpcEndpointAwsService, InterfaceVpcEndpointAwsService, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket, CfnBucket } from 'aws-cdk-lib/aws-s3';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { AwsSolutionsChecks, HIPAASecurityChecks, NIST80053R5Checks, ServerlessChecks } from 'cdk-nag';
import type { IConstruct } from 'constructs';
import {
  type BatchScoringProps,
  type Compute,
  ecsCompute,
  ecsGpuCompute,
  lambdaCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { docPage, REPOSITORY } from '../helpers/command.ts';
import { createApp, createScoring } from '../helpers/stacks.ts';

const ALL = ['queue', 'table', 'bucket'] as const;
const PACKS = [HIPAASecurityChecks, NIST80053R5Checks, ServerlessChecks];
type Props = Partial<BatchScoringProps<Compute>>;

/** The props that rules of HIPAA, NIST 800-53 and serverless apps ask for, as docs/operations.md names them. */
function strict(stack: Stack): Props {
  const topic = Topic.fromTopicArn(stack, 'OnCall', 'arn:aws:sns:eu-central-1:123456789012:on-call');
  const encryptionKey = new Key(stack, 'Key', { enableKeyRotation: true });
  return { results: ALL, alarmActions: [new SnsAction(topic)], encryptionKey };
}

function isolated(stack: Stack): Vpc {
  const subnetConfiguration = [{ name: 'Functions', subnetType: SubnetType.PRIVATE_ISOLATED }];
  const vpc = new Vpc(stack, 'Network', { subnetConfiguration, restrictDefaultSecurityGroup: false });
  vpc.addGatewayEndpoint('S3', { service: GatewayVpcEndpointAwsService.S3 });
  vpc.addInterfaceEndpoint('Sqs', { service: InterfaceVpcEndpointAwsService.SQS });
  vpc.addInterfaceEndpoint('States', { service: InterfaceVpcEndpointAwsService.STEP_FUNCTIONS });
  return vpc;
}

function stepsAndJobs(stack: Stack): Props {
  const vpc = isolated(stack);
  const trafficRouting = TrafficRouting.timeBasedCanary({ percentage: 10, interval: Duration.minutes(15) });
  const warm = { reservedConcurrency: 10, provisionedConcurrency: 1, trafficRouting };
  return { compute: lambdaCompute({ vpc, ...warm }), jobs: { vpc }, tracing: true };
}

function rolesAndBucketsOfYours(stack: Stack): Props {
  const role = new Role(stack, 'Ours', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  const bucket = Bucket.fromBucketAttributes(stack, 'Files', {
    bucketArn: 'arn:aws:s3:::files',
    encryptionKey: Key.fromKeyArn(stack, 'Theirs', 'arn:aws:kms:eu-central-1:123456789012:key/0a1b'),
  });
  return { compute: lambdaCompute({ role }), jobs: { bucket }, models: `s3://models/${'0'.repeat(64)}` };
}

describe('cdk-nag and the CloudFormation validator', () => {
  it.each<[what: string, of: (stack: Stack) => Props, isStrict: boolean]>([
    ['lambda, three shards', () => ({ compute: lambdaCompute({ minimumPollers: 2 }), batchSize: 1, shards: 3 }), false],
    ['lambda, jobs, a role and a bucket of your own', rolesAndBucketsOfYours, false],
    ['lambda, jobs, in steps, in a network', stepsAndJobs, true],
    [
      'lambda, FIFO',
      (stack) => ({
        compute: lambdaCompute({ reservedConcurrency: 10, vpc: isolated(stack) }),
        fifo: true,
        tracing: true,
      }),
      true,
    ],
    ['lambda-gpu, traced', () => ({ compute: lambdaGpuCompute(), tracing: true }), false],
    ['lambda-gpu, FIFO', () => ({ compute: lambdaGpuCompute(), fifo: true, tracing: true }), true],
    ['ecs', () => ({ compute: ecsCompute() }), false],
    ['ecs, FIFO', () => ({ compute: ecsCompute({ minimumTasks: 1 }), fifo: true }), true],
    ['ecs-gpu', () => ({ compute: ecsGpuCompute(), shards: 2 }), false],
    ['ecs-gpu, FIFO, spot', () => ({ compute: ecsGpuCompute({ spot: true }), fifo: true }), true],
  ])('find nothing that is not acknowledged with a reason: %s', (_, of, isStrict) => {
    const stack = createCheckedStack(AwsSolutionsChecks, ...(isStrict ? PACKS : []));
    const scoring = createScoring<Compute>({ results: ALL, ...of(stack), ...(isStrict && strict(stack)) }, stack);
    const grantee = new Role(stack, 'Someone', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') });
    scoring.grantOperate(grantee);
    const { found, messages } = validate(stack);
    expect(rulesIn(found).filter((rule) => !isStrict || !documented().includes(rule))).toEqual([]);
    expect(messages.filter(({ level }) => level !== 'info')).toEqual([]);
    const acknowledged = acknowledgementsIn(stack);
    expect(acknowledged.length).toBeGreaterThan(0);
    for (const { id, reason } of acknowledged) expect([id, reason]).toEqual([id, expect.stringMatching(/(\w+ ){4}/)]);
  });

  it('do look: a bucket that is open is found, and what docs/operations.md lists', () => {
    const stack = createCheckedStack(AwsSolutionsChecks, ...PACKS);
    createScoring({ results: ALL }, stack);
    new CfnBucket(stack, 'Open');
    const { found } = validate(stack);
    expect(found).toEqual(expect.arrayContaining([['AwsSolutions-S10', 'Test/Open']]));
    expect(rulesIn(found)).toEqual(documented());
  });
});

/** The rules that the deployment breaks, as one name for all packs. */
function rulesIn(found: readonly (readonly string[])[]): string[] {
  const ofScoring = found.filter(([, path = '']) => path.startsWith('Test/Scoring/'));
  const names = ofScoring.map(([rule = '']) => rule.replace(/^(HIPAA\.Security|NIST\.800\.53\.R5|Serverless)-/, ''));
  return [...new Set(names)].toSorted();
}

/** The rules that docs/operations.md names. */
function documented(): string[] {
  const [, section = ''] = docPage('operations.md').split('\n## Rules of HIPAA and NIST 800-53\n');
  const [table = ''] = section.split('\n## ');
  return [...table.matchAll(/^\| `(\w+)` \| /gm)].map(([, rule = '']) => rule).toSorted();
}

type Pack = new (scope: IConstruct) => IPolicyValidationPlugin;

/** A stack that CloudFormation's validator and packs of cdk-nag look at, with the flags of this app. */
function createCheckedStack(...packs: readonly Pack[]): Stack {
  const { context } = JSON.parse(readFileSync(join(REPOSITORY, 'cdk.json'), 'utf8'));
  const flags = Object.entries(context).filter(([key]) => key.startsWith('@aws-cdk'));
  const app = createApp({
    builtinCloudFormationValidation: true,
    context: { ...Object.fromEntries(flags), '@aws-cdk/core:failSynthOnValidationErrors': false },
  });
  Validations.of(app).addPlugins(...packs.map((Pack) => new Pack(app)));
  return new Stack(app, 'Test');
}

interface Violation {
  readonly ruleName: string;
  readonly violatingConstructs: readonly { readonly constructPath: string }[];
}

/** What the validators report, and what the command would print. */
function validate(stack: Stack) {
  const app = stack.node.root as App;
  const { stacks } = app.synth();
  const { pluginReports } = JSON.parse(readFileSync(join(app.outdir, 'validation-report.json'), 'utf8'));
  const violations = pluginReports.flatMap((report: { violations: readonly Violation[] }) => report.violations);
  return {
    found: violations.map((violation: Violation) => [
      violation.ruleName,
      violation.violatingConstructs[0]?.constructPath,
    ]),
    messages: stacks.flatMap(({ messages }) => messages),
  };
}

function acknowledgementsIn(stack: Stack): { readonly id: string; readonly reason: unknown }[] {
  return stack.node
    .findAll()
    .flatMap(({ node }) => node.metadata)
    .filter(({ type }) => type === Validations.ACKNOWLEDGED_RULES_METADATA_KEY)
    .flatMap(({ data }) => Object.entries(data).map(([id, reason]) => ({ id, reason })));
}
