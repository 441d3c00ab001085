import type { ProfileFile } from '../../../lambda/onnx/config/profileFile.ts';
import { runtimeVersion } from '../../../lambda/onnx/config/thisMachine.ts';
import { ownVersion } from '../../ownVersion.ts';

export function versions(): ProfileFile['versions'] {
  return { batchscore: ownVersion(), node: process.versions.node, onnxruntime: runtimeVersion() };
}
