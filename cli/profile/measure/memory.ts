import { readFileSync, writeFileSync } from 'node:fs';

/**
 * The most memory that this process has held. Linux tells it of the process alone; `maxRSS` there also counts what its
 * parent held when it was started.
 *
 * @see https://man7.org/linux/man-pages/man5/proc_pid_status.5.html
 */
export function peakRssBytes(): number {
  try {
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    if (kibibytes !== undefined) return Number(kibibytes) * 1024;
  } catch {}
  return process.resourceUsage().maxRSS * 1024;
}

/**
 * Has the system end this process before others when memory ends, where it can be asked to.
 *
 * @see https://man7.org/linux/man-pages/man5/proc_pid_oom_score_adj.5.html
 */
export function goFirstWhenMemoryEnds(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {}
}
