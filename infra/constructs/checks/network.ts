import type { Problem } from '../base/refuse.ts';

/** Parts of a network mean nothing without it. */
export function networkProblems({
  vpc,
  subnets,
  securityGroups,
}: {
  readonly vpc?: unknown;
  readonly subnets?: unknown;
  readonly securityGroups?: readonly unknown[] | undefined;
}): Problem[] {
  if (vpc !== undefined) return [securityGroups?.length === 0 ? NO_GROUP : undefined];
  const given = Object.entries({ subnets, securityGroups }).filter(([, value]) => value !== undefined);
  return given.map(
    ([name]) => `${name}: expected only with a vpc, got it without one; give the vpc that it is part of`,
  );
}

const NO_GROUP =
  'securityGroups: expected at least one, got none; leave it out for one that lets the function call HTTPS';
