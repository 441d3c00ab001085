import { Stack } from 'aws-cdk-lib';
import type { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';

/** A statement as JSON on one line, to be copied into a policy. */
export function statementText(scope: Construct, statement: PolicyStatement): string {
  return JSON.stringify(Stack.of(scope).resolve(statement.toStatementJson()), (_, value) =>
    isReference(value) ? plainText(value) : value,
  );
}

function isReference(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const keys = Object.keys(value);
  return keys.length === 1 && /^(Ref|Fn::.+)$/.test(keys[0] ?? '');
}

/** A resolved value as a person reads it: references as `<LogicalId.Attribute>` or `<Parameter>`, as cdk-nag has them. */
export function plainText(resolved: unknown): string {
  if (typeof resolved !== 'object' || resolved === null) return String(resolved);
  const [[kind, value] = []] = Object.entries(resolved);
  switch (kind) {
    case 'Fn::Join':
      return value[1].map(plainText).join(value[0]);
    case 'Fn::GetAtt':
      return `<${value[0]}.${value[1]}>`;
    case 'Ref':
      return `<${value}>`;
    default:
      return JSON.stringify(resolved);
  }
}
