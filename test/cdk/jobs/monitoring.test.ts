import { describe, expect, it } from '@jest/globals';
import { dashboardIn, synthesize } from '../../helpers/stacks.ts';

interface Widget {
  readonly properties: { readonly title?: string; readonly metrics?: readonly (readonly unknown[])[] };
}

const widgetsOf = (props: Parameters<typeof synthesize>[0]): Widget[] =>
  JSON.parse(dashboardIn(synthesize(props))).widgets;

describe('the dashboard of a deployment with jobs', () => {
  const widgets = widgetsOf({ jobs: {} });
  const graph = (title: string): string => JSON.stringify(widgets.find(({ properties }) => properties.title === title));

  it('counts parts by the label of the map', () => {
    expect(graph('Parts of jobs')).toMatch(/"ExecutionsFailed","StateMachineArn","TOKEN\/Parts"/);
  });

  it('counts the rows of jobs apart from those of messages', () => {
    expect(graph('Rows of jobs per second')).toMatch(/"Rows","service","[\w-]+-jobs"/);
    const messages = widgets.filter(({ properties }) => !/obs/.test(properties.title ?? ''));
    expect(JSON.stringify(messages)).not.toContain('-jobs"');
  });
});
