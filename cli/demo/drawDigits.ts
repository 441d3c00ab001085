/** A digit as it was sent, and what came back. */
export interface ScoredDigit {
  /** 8 rows of 8, from 0 to 16. */
  readonly pixels: readonly number[];
  readonly label: number;
  readonly probability: number;
}

const SIDE = 8;
const DARKEST = 16;
const SHADES = [' ', '░', '▒', '▓', '█'];
const GAP = 4;

/**
 * Digits side by side, each above its label and probability. A letter is about half as wide as it is high: where there is
 * room, two of them make a pixel; where there is little, fewer digits are drawn.
 *
 * @param columns that there are
 * @returns the lines
 */
export function drawDigits(digits: readonly ScoredDigit[], columns: number): string[] {
  const most = Math.max(1, Math.floor(columns / (SIDE + GAP)));
  const shown = digits.slice(0, most);
  const lettersAPixel = digits.length * (2 * SIDE + GAP) <= columns ? 2 : 1;
  const width = lettersAPixel * SIDE + GAP;
  const pictures = Array.from({ length: SIDE }, (_, row) =>
    shown.map(({ pixels }) => drawRow(pixels.slice(row * SIDE, (row + 1) * SIDE), lettersAPixel)),
  );
  const captions = shown.map(({ label, probability }) => `${label}, ${(100 * probability).toFixed(1)} %`);
  return [...pictures, captions].map((cells) =>
    cells
      .map((cell) => cell.padEnd(width))
      .join('')
      .trimEnd(),
  );
}

function drawRow(pixels: readonly number[], lettersAPixel: number): string {
  const shadeOf = (pixel: number): string => SHADES[Math.round((pixel / DARKEST) * (SHADES.length - 1))] ?? ' ';
  return pixels.map((pixel) => shadeOf(pixel).repeat(lettersAPixel)).join('');
}
