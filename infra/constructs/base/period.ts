import { Duration } from 'aws-cdk-lib';

/** The period of every alarm, and of the dashboard's sums. */
export const PERIOD = Duration.minutes(5);
