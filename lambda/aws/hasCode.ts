/** Whether an error of the system has one of these codes, such as `ENOENT`. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  if (typeof error !== 'object' || error === null || !('code' in error)) return false;
  return typeof error.code === 'string' && codes.includes(error.code);
}
