import { ArnFormat, Names, Stack } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { MAP_LABEL } from './definition.ts';

/** What a state machine is called before it is there: one of its functions must know. */
export interface StateMachineNames {
  readonly name: string;
  readonly arn: string;
  /** Of its executions, and of those that are children of its map. */
  readonly executions: readonly string[];
}

/** The name is the construct's own path, so that two deployments in a stack differ. */
export function stateMachineNames(scope: Construct): StateMachineNames {
  const name = Names.uniqueResourceName(scope, { separator: '-', maxLength: 80 });
  const arn = (resource: string, resourceName: string): string =>
    Stack.of(scope).formatArn({
      service: 'states',
      resource,
      resourceName,
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    });
  return {
    name,
    arn: arn('stateMachine', name),
    executions: [arn('execution', `${name}:*`), arn('execution', `${name}/${MAP_LABEL}:*`)],
  };
}
