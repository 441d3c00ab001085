/** The file of a version. */
export const MODEL_FILE = 'model.onnx';

/** A model's settings, beside its versions. */
export const CONFIG_FILE = 'config.json';

/** How a model repository is laid out: as Triton's. */
export const MODEL_LAYOUT = `<name>/<version>/${MODEL_FILE}`;

/** Whether a folder of this name is a version of its model: a whole number from 1, written without leading zeros. */
export function isVersion(folderName: string): boolean {
  return /^[1-9]\d*$/.test(folderName);
}

/** Sorts versions so that the highest, which is the default one, comes first. */
export function highestVersionFirst(a: string, b: string): number {
  return Number(b) - Number(a);
}
