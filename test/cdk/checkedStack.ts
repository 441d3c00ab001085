import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type App, type IPolicyValidationPlugin, Stack, Validations } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';
import { REPOSITORY } from '../helpers/command.ts';
import { createApp } from '../helpers/stacks.ts';

type Pack = new (scope: IConstruct) => IPolicyValidationPlugin;

/** A stack that CloudFormation's validator and packs of cdk-nag look at, with the flags of this app. */
export function createCheckedStack(...packs: readonly Pack[]): Stack {
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
export function validate(stack: Stack) {
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

export function acknowledgementsIn(stack: Stack): { readonly id: string; readonly reason: unknown }[] {
  return stack.node
    .findAll()
    .flatMap(({ node }) => node.metadata)
    .filter(({ type }) => type === Validations.ACKNOWLEDGED_RULES_METADATA_KEY)
    .flatMap(({ data }) => Object.entries(data).map(([id, reason]) => ({ id, reason })));
}
