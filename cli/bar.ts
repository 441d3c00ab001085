import cliProgress from 'cli-progress';

export interface ProgressBar {
  update(value: number): void;
  stop(): void;
}

/** A progress bar on stderr where that is a terminal and the total is known; nothing elsewhere. */
export function progressBar(title: string, total: number | undefined): ProgressBar {
  if (total === undefined || !process.stderr.isTTY) return { update: () => {}, stop: () => {} };
  const bar = new cliProgress.SingleBar({
    format: `${title.padEnd(12)}{bar} {percentage} %  {duration_formatted}`,
    barsize: 40,
    clearOnComplete: true,
  });
  bar.start(total, 0);
  return { update: (value) => bar.update(value), stop: () => bar.stop() };
}
