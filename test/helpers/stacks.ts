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
 * validator of templates is off: its start takes longer than most tests, in every file, and `checkedStack.ts` has it on.
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

/**
 * The template of a stack that holds nothing but `BatchScoring`.
 *
 * ```ts
 * const template = synthesize({ results: ['table'] });
 * expect(only(template, 'AWS::Lambda::Function', SCORING)).toMatchObject({ MemorySize: 1769 });
 * ```
 */
export function synthesize(props: Partial<BatchScoringProps> = {}): Template {
  return templateOf(createScoring(props));
}

export function templateOf(scoring: Construct): Template {
  return Template.fromStack(Stack.of(scoring));
}

/** The `BATCHSCORE_…` variables of the only function. */
export function environmentIn(template: Template): Record<string, unknown> {
  const [scoringFunction] = Object.values(template.findResources('AWS::Lambda::Function'));
  return scoringFunction?.Properties.Environment.Variables;
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
