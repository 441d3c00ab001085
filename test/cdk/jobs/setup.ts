import type { Template } from 'aws-cdk-lib/assertions';
import type { StateMachine } from '../../../infra/jobs/jobDefinition.ts';

interface FunctionProperties {
  readonly MemorySize: number;
  readonly Timeout: number;
  readonly ReservedConcurrentExecutions?: number;
  readonly ImageConfig: { readonly Command: readonly string[] };
  readonly Environment: { readonly Variables: Readonly<Record<string, unknown>> };
  readonly VpcConfig?: unknown;
}

/** The function of jobs with this command. */
export function functionIn(template: Template, command: string): FunctionProperties {
  const functions = Object.values(template.findResources('AWS::Lambda::Function'));
  const found = functions.find(({ Properties }) => Properties.ImageConfig?.Command?.[0] === command);
  if (found === undefined) throw new Error(`expected a function with the command ${command}, got none`);
  return found.Properties;
}

/** The definition of the only state machine; what is known at deployment stands there as TOKEN. */
export function definitionIn(template: Template): StateMachine {
  const [machine] = Object.values(template.findResources('AWS::StepFunctions::StateMachine'));
  const parts: unknown[] = machine?.Properties.DefinitionString['Fn::Join'][1];
  return JSON.parse(parts.map((part) => (typeof part === 'string' ? part : 'TOKEN')).join(''));
}
