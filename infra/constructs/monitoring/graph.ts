import { GraphWidget, type GraphWidgetProps } from 'aws-cdk-lib/aws-cloudwatch';

/** Columns of a dashboard. */
export const FULL_WIDTH = 24;
const WIDTH = FULL_WIDTH / 2;
const HEIGHT = 6;

export const FROM_ZERO = { min: 0 };
/** The axis of percentages. */
export const SHARE = { min: 0, max: 100 };

/** A graph of the size that all have. */
export function graph(props: GraphWidgetProps): GraphWidget {
  return new GraphWidget({ width: WIDTH, height: HEIGHT, ...props });
}
