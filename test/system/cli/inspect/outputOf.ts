import { jest } from '@jest/globals';

export interface Output {
  readonly code: number | undefined;
  readonly stdout: string;
  /** The message of what was thrown. */
  readonly error: string | undefined;
}

/** Runs a command in this process, and keeps what it prints. */
export async function outputOf(run: () => Promise<number>): Promise<Output> {
  let stdout = '';
  const write = jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += text;
    return true;
  });
  try {
    const code = await run();
    return { code, stdout, error: undefined };
  } catch (error) {
    return { code: undefined, stdout, error: error instanceof Error ? error.message : String(error) };
  } finally {
    write.mockRestore();
  }
}
