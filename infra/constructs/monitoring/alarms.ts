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

/** One alarm for each condition that a person has to look at. */
export function createAlarms(scope: Construct, subject: Subject, actions: AlarmActions): Alarm[] {
  return conditionsOf(subject).map((condition) => create(scope, condition, actions));
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
