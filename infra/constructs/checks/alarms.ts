import { outside } from '../../../lambda/core/limits.ts';
import type { AlarmThresholds } from '../base/alarmThresholds.ts';
import type { Problem } from '../base/refuse.ts';

/** A share of more than all never goes off; one of nothing in flight always does. */
export function alarmProblems({ retriedPercent, errorPercent, inFlightPercent }: AlarmThresholds): Problem[] {
  return [
    outside('retriedPercent', retriedPercent, { least: 0, most: 99 }),
    outside('errorPercent', errorPercent, { least: 0, most: 99 }),
    outside('inFlightPercent', inFlightPercent, { least: 1, most: 99 }),
  ];
}
