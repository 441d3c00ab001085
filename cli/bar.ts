import cliProgress from 'cli-progress';

export interface ProgressBar {
  update(value: number): void;
  stop(): void;
}

const FIGURES = { share: '{percentage} %', count: '{value}/{total}' } as const;

/**
 * A progress bar on stderr where that is a terminal and the total is known; nothing elsewhere.
 *
 * @param figure shown beside the bar
 */
export function progressBar(
  title: string,
  total: number | undefined,
  figure: keyof typeof FIGURES = 'share',
): ProgressBar {
  if (total === undefined || !process.stderr.isTTY) return { update: () => {}, stop: () => {} };
  const bar = new cliProgress.SingleBar({
    format: `${title.padEnd(12)}{bar} ${FIGURES[figure]}  {duration_formatted}`,
    barsize: 40,
    clearOnComplete: true,
  });
  bar.start(total, 0);
  return { update: (value) => bar.update(value), stop: () => bar.stop() };
}
