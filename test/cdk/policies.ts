import { Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { plainText } from '../../infra/common/nag.ts';
import { templateOf } from '../helpers/stacks.ts';

export interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource?: unknown;
  readonly Condition?: unknown;
}

/** A role of a service, for a producer, a consumer, or the host itself. */
export function roleIn(scope: Construct, id: string, service = 'ec2'): Role {
  return new Role(Stack.of(scope), id, { assumedBy: new ServicePrincipal(`${service}.amazonaws.com`) });
}

/** The statements of the policies of the role whose logical ID holds this word. */
function statementsOf(scope: Construct, role: string): Statement[] {
  return Object.values(templateOf(scope).findResources('AWS::IAM::Policy'))
    .filter(({ Properties }) => JSON.stringify(Properties.Roles).includes(role))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
}

/** What that role may do with services such as `s3|sqs`, as `rightsIn` has it. */
export function rightsOf(scope: Construct, role: string, services = '\\w+'): string[] {
  const ofServices = new RegExp(`^(Deny )?(${services}):`);
  return rightsIn(statementsOf(scope, role)).filter((right) => ofServices.test(right));
}

/** A line for each action on each resource, such as `s3:GetObject <PayloadBucket>/requests/*`. */
export function rightsIn(statements: readonly Statement[]): string[] {
  const rights = statements.flatMap(({ Effect, Action, Resource, Condition }) =>
    [Action].flat().flatMap((action) =>
      [Resource].flat().map((resource) => {
        const condition = Condition === undefined ? '' : ` if ${named(Condition)}`;
        return `${Effect === 'Allow' ? '' : `${Effect} `}${action} ${named(resource)}${condition}`;
      }),
    ),
  );
  return [...new Set(rights)].toSorted();
}

/** What of a template `rightsIn` calls by its ID alone: `<PayloadBucket>` for the ARN of `ScoringPayloadBucket1A2B3C4D`. */
function named(value: unknown): string {
  const isReference = (node: unknown) => typeof node === 'object' && /^\{"(Ref|Fn::\w+)":/.test(JSON.stringify(node));
  const text = JSON.stringify(value, (_, node) => (isReference(node) ? plainText(node) : node));
  return text
    .replace(/^"(.*)"$/, '$1')
    .replaceAll('<AWS::Partition>', 'aws')
    .replaceAll('<AWS::Region>:<AWS::AccountId>', 'REGION:ACCOUNT')
    .replaceAll(/<(?:Scoring)?(\w+?)[0-9A-F]{8}(?:\.\w+)?>/g, '<$1>')
    .replaceAll(/Test-Scoring-(\w+)-\w+/g, '<$1>');
}
