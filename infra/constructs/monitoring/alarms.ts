import { Alarm, ComparisonOperator, type IAlarmAction, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import type { AlarmCondition } from '../compute/compute.ts';
import { conditionsOf } from './conditions.ts';
import type { Subject } from './subject.ts';

/** What happens when an alarm goes off, and when it is over. */
export interface AlarmActions {
  readonly onAlarm: readonly IAlarmAction[];
  readonly onOk: readonly IAlarmAction[];
}

export interface Alarms {
  readonly all: Alarm[];
  /** Those that tell of what runs: a new version that sets one off is undone. */
  readonly ofVersions: readonly Alarm[];
}

/** One alarm for each condition that a person has to look at. */
export function createAlarms(scope: Construct, subject: Subject, actions: AlarmActions): Alarms {
  const alarms = conditionsOf(subject).map((condition) => ({ condition, alarm: create(scope, condition, actions) }));
  const ofVersions = alarms.filter(({ condition }) => condition.blamesVersion);
  return { all: alarms.map(({ alarm }) => alarm), ofVersions: ofVersions.map(({ alarm }) => alarm) };
}

function create(scope: Construct, condition: AlarmCondition, { onAlarm, onOk }: AlarmActions): Alarm {
  const { id, description, metric, threshold, periods, periodsAbove = periods } = condition;
  const alarm = new Alarm(scope, id, {
    alarmDescription: description,
    metric,
    threshold,
    evaluationPeriods: periods,
    datapointsToAlarm: periodsAbove,
    comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
    // A queue that nobody uses has no metrics, which is no reason for an alarm.
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
  alarm.addAlarmAction(...onAlarm);
  alarm.addOkAction(...onOk);
  return alarm;
}
