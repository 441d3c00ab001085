import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

/**
 * Says at synth what works but may fail later. `Annotations.of(scoring).acknowledgeWarning('batchscore:<id>')` silences it.
 *
 * @param id without the prefix `batchscore:`
 * @param context by which `Validations.of(scoring).acknowledge({ id, reason, where })` silences some of an ID alone
 */
export function warn(scope: Construct, id: string, message: string, context?: Readonly<Record<string, string>>): void {
  Annotations.of(scope).addWarningV2(`batchscore:${id}`, message, context && { context });
}

/** Says at synth what a deployer may want to know. `Annotations.of(scoring).acknowledgeInfo('batchscore:<id>')` silences it. */
export function note(scope: Construct, id: string, message: string): void {
  Annotations.of(scope).addInfoV2(`batchscore:${id}`, message);
}
