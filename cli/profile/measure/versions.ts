import { type ProfileFile, runtimeVersion } from '../../../lambda/onnx/profileFile.ts';
import { ownVersion } from '../../ownVersion.ts';

export function versions(): ProfileFile['versions'] {
  return { batchscore: ownVersion(), node: process.versions.node, onnxruntime: runtimeVersion() };
}
