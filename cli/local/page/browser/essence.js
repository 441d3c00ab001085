import { percent } from './format.js';

/**
 * A result in a few words; undefined where it says nothing in a few.
 *
 * @param {string} body
 * @returns {string | undefined}
 */
export function essenceOf(body) {
  try {
    const answer = JSON.parse(body);
    if (answer.code !== undefined) return `${answer.code}: ${answer.error}`;
    const [ticket] = answer.result?.tickets ?? [];
    if (ticket !== undefined) return `${ticket.label}, ${percent(ticket.confidence)} sure`;
    /** @param {string} name */
    const output = (name) => answer.outputs?.find((/** @type {{ name: string }} */ one) => one.name === name)?.data;
    const [label] = output('label') ?? [];
    const probability = output('probabilities')?.[label];
    if (probability !== undefined) return `${label}, ${percent(probability)} sure`;
  } catch {
    // A packed result, or one that was cut.
  }
  return undefined;
}
