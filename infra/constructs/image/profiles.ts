import { messageOf } from '../../../lambda/core/failure.ts';

import { walkModels } from '../../../lambda/onnx/findModels.ts';
import { type ModelConfig, readModelConfig } from '../../../lambda/onnx/modelConfig.ts';
import { otherModel, type ProfileFile, profilePath, readProfile } from '../../../lambda/onnx/profileFile.ts';

/** What was measured of a model that is deployed. */
export interface DeployedProfile {
  readonly profile: ProfileFile;
  readonly config: ModelConfig;
}

export interface Profiles {
  readonly usable: readonly DeployedProfile[];
  /** Why others are of no use, a sentence for each. */
  readonly unusable: readonly string[];
}

/** The profiles of a model repository that was checked. A model without one is passed over. */
export function readProfiles(folder: string): Profiles {
  const usable: DeployedProfile[] = [];
  const unusable: string[] = [];
  for (const model of walkModels(folder)) {
    const config = readModelConfig(model.folder);
    for (const { path } of model.versions) {
      try {
        const profile = readProfile(path);
        if (profile === undefined) continue;
        const problem = otherModel(profile, path);
        if (problem === undefined) usable.push({ profile, config });
        else unusable.push(`${profilePath(path)}: ${problem}`);
      } catch (error) {
        unusable.push(messageOf(error));
      }
    }
  }
  return { usable, unusable };
}
