import { createHash } from 'node:crypto';

/**
 * The shards one after the other, over and over.
 *
 * @param shards at least one
 * @param random says which is the first: many clients that send little would else all begin with the same one
 */
export function* inTurn<T>(shards: readonly T[], random: () => number = Math.random): Generator<T, never> {
  const first = Math.floor(random() * shards.length);
  const order = [...shards.slice(first), ...shards.slice(0, first)];
  for (;;) yield* order;
}

/**
 * The shard of a message group: the one whose name and the group's have the highest hash. It is the same for every client,
 * in whatever order it has the shards; one shard more takes its share of the groups, and leaves the others where they are.
 *
 * @param shards at least one
 * @see https://en.wikipedia.org/wiki/Rendezvous_hashing
 */
export function shardOf<S extends { readonly queueUrl: string }>(group: string, shards: readonly S[]): S {
  const ranked = shards.map((shard) => ({ shard, rank: rankOf(shard.queueUrl, group) }));
  return ranked.reduce((highest, one) => (one.rank > highest.rank ? one : highest)).shard;
}

/** A queue's name is the same whatever endpoint its URL has. */
export function queueNameOf(queueUrl: string): string {
  return queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
}

function rankOf(queueUrl: string, group: string): string {
  return createHash('sha256')
    .update(`${queueNameOf(queueUrl)}/${group}`)
    .digest('hex');
}
