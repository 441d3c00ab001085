// The CDK app that cdk.json names: one stack, set up by the context.
import { App, Validations } from 'aws-cdk-lib/core';
import { AwsSolutionsChecks } from 'cdk-nag';
import { createStack } from './batchScoringStack.ts';
import { readContext } from './context.ts';

try {
  const app = new App({ autoSynth: false });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  createStack(app, readContext(app.node.getAllContext()));
  app.synth();
} catch (error) {
  // The message says what is wrong in cdk.json; a stack trace would add nothing.
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
