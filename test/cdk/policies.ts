import { Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { BatchScoring } from '../../infra/index.ts';

export interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource?: unknown;
  readonly Principal?: unknown;
  readonly Condition?: unknown;
}

export function roleIn(scoring: BatchScoring, id: string): Role {
  return new Role(Stack.of(scoring), id, { assumedBy: new ServicePrincipal('ec2.amazonaws.com') });
}

export function arnIn(scoring: BatchScoring, arn: string | undefined): unknown {
  return Stack.of(scoring).resolve(arn);
}

const POLICY_KINDS = {
  'AWS::IAM::Policy': 'policy',
  'AWS::IAM::ManagedPolicy': 'policy',
  'AWS::SQS::QueuePolicy': 'queue policy',
  'AWS::S3::BucketPolicy': 'bucket policy',
};

/** Every statement of a template, wherever it stands. */
export function statementsIn(template: Template): { readonly kind: string; readonly statement: Statement }[] {
  const resources: Record<string, { Type: string; Properties: Record<string, never> }> = template.toJSON().Resources;
  return Object.values(resources).flatMap(({ Type, Properties = {} }) => [
    ...statementsOf(POLICY_KINDS[Type as keyof typeof POLICY_KINDS] ?? Type, Properties.PolicyDocument),
    ...statementsOf('key policy', Properties.KeyPolicy),
    ...(Properties.Policies ?? ([] as { PolicyDocument: never }[])).flatMap((policy: { PolicyDocument: never }) =>
      statementsOf('inline policy', policy.PolicyDocument),
    ),
  ]);
}

function statementsOf(kind: string, document: { readonly Statement: readonly Statement[] } | undefined) {
  return (document?.Statement ?? []).map((statement) => ({ kind, statement }));
}

export function actionsOf({ Action }: Statement): string[] {
  return [Action].flat().toSorted();
}

export function resourcesOf({ Resource }: Statement): unknown[] {
  return [Resource].flat();
}

/** The policies of the role whose logical ID holds this word. */
export function policiesOf(template: Template, role: string): Statement[] {
  return Object.values(template.findResources('AWS::IAM::Policy'))
    .filter(({ Properties }) => JSON.stringify(Properties.Roles).includes(role))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
}

export function actionsOfRole(template: Template, role: string): string[] {
  return [...new Set(policiesOf(template, role).flatMap(actionsOf))].toSorted();
}

export function grantsOf(template: Template, role: string): (action: string) => unknown[] {
  return (action) =>
    policiesOf(template, role)
      .filter((statement) => actionsOf(statement).includes(action))
      .flatMap(resourcesOf);
}
