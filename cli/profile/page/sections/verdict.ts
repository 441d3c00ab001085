import type { ProfileReport } from '../../report.ts';
import { count } from '../format.ts';

export interface Verdict {
  /** Stands beside the title, which says the same in words. */
  readonly mark: string;
  readonly title: string;
  readonly explanation: string;
}

/** Whether rows may share runs, in words. */
export function verdictOf({ verdict, maxDifference, probes }: ProfileReport['measured']['safety']): Verdict {
  const [mark, title, why] = VERDICTS[verdict];
  const tried =
    probes > 0 ? ` ${count(probes)} ${probes === 1 ? 'row was' : 'rows were'} run alone and in company.` : '';
  const difference =
    maxDifference === null
      ? ''
      : ` Their answers ${maxDifference === 0 ? 'did not differ' : `differed by ${maxDifference.toExponential(1)} of their size at most`}.`;
  return { mark, title, explanation: why + tried + difference };
}

const VERDICTS: Readonly<Record<ProfileReport['measured']['safety']['verdict'], readonly [string, string, string]>> = {
  independent: ['✓', 'Rows are independent', 'A row is answered the same whichever rows share its run.'],
  trusted: ['!', 'Rows share runs unchecked', 'config.json says that they may; nothing was compared.'],
  unknown: ['?', 'Whether rows are independent is unknown', 'They run alone until requests have proved it.'],
  dependent: ['✕', 'Rows depend on each other', 'A row was answered otherwise in company, so rows run alone.'],
  alone: ['!', 'Rows run alone', 'config.json says so.'],
};
