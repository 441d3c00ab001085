/** The exit codes that shells know: 128 and the signal's number. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

type SignalName = keyof typeof EXIT_CODES;

const SIGNALS: readonly SignalName[] = ['SIGINT', 'SIGTERM'];

/** `npm run` passes Ctrl-C on to a process that the terminal has told already: the two come as one. */
const SAME_PRESS_MS = 200;

/** That a command was told to end. */
export interface Interruption {
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  /** Of the process once it was told; undefined before. */
  exitCode(): number | undefined;
  /** Tells that there is nothing left to finish: the next signal has its default effect. */
  finished(): void;
}

/**
 * Lets a command finish what is under way on the first SIGINT or SIGTERM. The next one has its default effect: the
 * kernel ends the process, even when a thread is busy in native code, for which `process.exit` would wait.
 *
 * @param finishing what is being finished, said when that takes a moment
 */
export function listenForInterruption(finishing: string, onInterrupt: () => void): Interruption {
  const interrupted = new AbortController();
  let exitCode: number | undefined;
  let samePress: NodeJS.Timeout | undefined;
  const listener = (name: SignalName): void => {
    if (exitCode !== undefined) return;
    exitCode = EXIT_CODES[name];
    samePress = setTimeout(letNextOneEnd, SAME_PRESS_MS).unref();
    onInterrupt();
    interrupted.abort();
  };
  const stopListening = (): void => {
    for (const name of SIGNALS) process.removeListener(name, listener);
  };
  const letNextOneEnd = (): void => {
    stopListening();
    process.stderr.write(`finishing ${finishing}; Ctrl-C again leaves at once\n`);
  };
  for (const name of SIGNALS) process.on(name, listener);
  const finished = (): void => {
    clearTimeout(samePress);
    // The second of one press may be on its way: its default effect would come before the exit code.
    if (exitCode === undefined) stopListening();
  };
  return { signal: interrupted.signal, exitCode: () => exitCode, finished };
}
