import { describe, expect, it } from '@jest/globals';
import { DARK, LIGHT } from '../../../../../cli/profile/page/markup.ts';

/** WCAG 2.2, level AA: of text, and of lines that mean something. @see https://www.w3.org/TR/WCAG22/#contrast-minimum */
const [MIN_OF_TEXT, MIN_OF_LINES] = [4.5, 3];

describe.each([
  ['light', LIGHT],
  ['dark', DARK],
])('the %s colours', (_, { page, raised, ink, muted, accent, rule, series }) => {
  it.each([
    ['the page', page],
    ['what lies on it', raised],
  ])('are legible on %s', (_name, ground) => {
    const faint = [ink, muted, accent, ...series].filter((text) => contrast(text, ground) < MIN_OF_TEXT);
    expect(faint).toEqual([]);
    expect(contrast(rule, ground)).toBeGreaterThanOrEqual(MIN_OF_LINES);
  });
});

function contrast(one: string, other: string): number {
  const [lighter = 0, darker = 0] = [luminance(one), luminance(other)].toSorted((a, b) => b - a);
  return (lighter + 0.05) / (darker + 0.05);
}

/** @see https://www.w3.org/TR/WCAG22/#dfn-relative-luminance */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
