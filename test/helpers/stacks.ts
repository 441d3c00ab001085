import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from '@jest/globals';
import { App, type AppProps, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { Repository } from 'aws-cdk-lib/aws-ecr';
import type { Construct } from 'constructs';
import type { BatchScoringProps, Compute, FunctionCompute } from '../../infra/index.ts';
import { BatchScoring } from '../../infra/index.ts';

/** What a test deploys: an image from elsewhere, so that nothing is staged. */
export function createScoring<Created extends Compute = FunctionCompute>(
  props: Partial<BatchScoringProps<Created>> = {},
  stack: Stack = createStack(),
): BatchScoring<Created> {
  return new BatchScoring(stack, 'Scoring', { image: imageOf(stack), ...props });
}

export function createStack(app: App = createApp()): Stack {
  return new Stack(app, 'Test');
}

const outputs: string[] = [];
afterAll(() => {
  for (const folder of outputs.splice(0)) rmSync(folder, { recursive: true });
});

/**
 * An app whose output goes when the tests of a file end; without a folder of its own it would stay. The library's
 * validator of templates is off: its start takes longer than most tests, in every file, and `compliance.test.ts` has it on.
 * So are the traces that say where a construct was made, which nobody reads here.
 */
export function createApp(props: AppProps = {}): App {
  const outdir = mkdtempSync(join(tmpdir(), 'batchscore-cdk-'));
  outputs.push(outdir);
  return new App({ outdir, builtinCloudFormationValidation: false, stackTraces: false, ...props });
}

export function imageOf(stack: Stack) {
  return { repository: Repository.fromRepositoryName(stack, 'Images', 'scoring'), tagOrDigest: 'v1' };
}

const templates = new Map<string, Template>();

/** The template of such a deployment; of plain props it is made once for all tests of a worker. */
export function synthesize(props: Partial<BatchScoringProps> = {}): Template {
  if (!isPlain(props)) return templateOf(createScoring(props));
  const key = JSON.stringify(props);
  const template = templates.get(key) ?? templateOf(createScoring(props));
  templates.set(key, template);
  return template;
}

/** Returns true if it is told from others by its JSON: without constructs, durations and functions. */
function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return typeof value !== 'function';
  const prototype = Object.getPrototypeOf(value);
  return (prototype === Object.prototype || Array.isArray(value)) && Object.values(value).every(isPlain);
}

export function templateOf(scoring: Construct): Template {
  return Template.fromStack(Stack.of(scoring));
}

/** The `BATCHSCORE_…` variables of the only function. */
export function environmentIn(template: Template): Record<string, unknown> {
  const [scoringFunction] = Object.values(template.findResources('AWS::Lambda::Function'));
  return scoringFunction?.Properties.Environment.Variables;
}

/** An environment as its host has it, where what only the deployment knows is a URL. */
export function deployedEnvironment(environment: Readonly<Record<string, unknown>>): Record<string, string> {
  const values = Object.entries(environment).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : `https://sqs.eu-central-1.amazonaws.com/123456789012/${name}`,
  ]);
  return Object.fromEntries(values);
}

/** The services that the endpoints of a network lead to, such as `sqs` and `ecr.api`. */
export function endpointsIn(template: Template): string[] {
  return Object.values(template.findResources('AWS::EC2::VPCEndpoint'))
    .map(({ Properties }) => JSON.stringify(Properties.ServiceName).replace(/^.*"\.([\w.-]+)".*$/, '$1'))
    .toSorted();
}

/** What only the function that scores has: the one that closes a default security group is no image. */
export const SCORING = { PackageType: 'Image' };

/** The properties of the only resource of a type. */
export function only(template: Template, type: string, props: unknown = {}): Record<string, unknown> {
  const found = Object.values(template.findResources(type, { Properties: Match.objectLike(props as never) }));
  if (found.length !== 1) throw new Error(`expected one ${type}, got ${found.length}`);
  return found[0]?.Properties;
}

/** The body of the only dashboard; what is known at deployment stands there as TOKEN. */
export function dashboardIn(template: Template): string {
  const [dashboard] = Object.values(template.findResources('AWS::CloudWatch::Dashboard'));
  const parts: unknown[] = dashboard?.Properties.DashboardBody['Fn::Join'][1];
  return parts.map((part) => (typeof part === 'string' ? part : 'TOKEN')).join('');
}

/** The sentence that making the construct throws. */
export function refusalOf<Created extends Compute = FunctionCompute>(
  props: Partial<BatchScoringProps<Created>>,
): string {
  try {
    createScoring(props);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return 'not refused';
}

interface ContainerDefinition extends Record<string, unknown> {
  readonly Environment: readonly { readonly Name: string; readonly Value: unknown }[];
}

/** The container of the only task definition. */
export function containerIn(template: Template): ContainerDefinition {
  const { ContainerDefinitions } = only(template, 'AWS::ECS::TaskDefinition');
  const [container] = ContainerDefinitions as ContainerDefinition[];
  if (container === undefined) throw new Error('expected a container, got none');
  return container;
}

/** The environment of that container. */
export function workerEnvironmentIn(template: Template): Record<string, unknown> {
  return Object.fromEntries(containerIn(template).Environment.map(({ Name, Value }) => [Name, Value]));
}
