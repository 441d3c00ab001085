import { Duration } from 'aws-cdk-lib';

/** Of every alarm, and of the dashboard's sums. */
export const PERIOD = Duration.minutes(5);
