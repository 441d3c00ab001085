// The CDK app that cdk.json names: one stack, set up by the context.
import { App, Validations } from 'aws-cdk-lib/core';
import { AwsSolutionsChecks } from 'cdk-nag';
import { createStack } from './batchScoringStack.ts';
import { ValidationError } from './constructs/problems.ts';
import { readContext } from './context.ts';

try {
  const app = new App({ autoSynth: false });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  createStack(app, readContext(app.node.getAllContext()));
  app.synth();
} catch (error) {
  // The message says what is wrong in cdk.json, by its keys; a stack trace would add nothing.
  const said = error instanceof ValidationError ? error.cause : error;
  console.error(said instanceof Error ? said.message : said);
  process.exitCode = 1;
}
