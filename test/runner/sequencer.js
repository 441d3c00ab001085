// Plain JavaScript: the package's declarations are those of its CommonJS build, and Node loads the other one.
import SizeSequencer from '@jest/test-sequencer';

/** What waits longest starts first: on a clean clone Jest knows nothing of a file but its size. */
const SLOW =
  /\/test\/(guarantees|system\/(culprits|scorer|faults|outages|package|worker|cli\/(hostileFiles|resume)))\b/;

export default class Sequencer extends SizeSequencer {
  sort(tests) {
    const isSlow = ({ path }) => Number(SLOW.test(path));
    return [...super.sort(tests)].sort((a, b) => isSlow(b) - isSlow(a));
  }
}
