// What runs in the browser. Each that looks for problems returns them, a line each.

/** What reaches beyond the window. */
export function overflowing(): string[];

/** Texts smaller than 11 pixels on the screen, or too faint on what lies behind them (WCAG 2.2, AA). */
export function illegible(): string[];

/** How many elements a keyboard should reach. */
export function reachable(): number;

/** What it has reached, and whether that shows. */
export function focused(): { readonly name: string; readonly shows: boolean };

export function openDetails(): void;

/** Of the text, as the browser computed it. */
export function inkColour(): string;

/** Waits until what follows from a change of size is drawn. */
export function twoFrames(): Promise<unknown>;

/** Whether something is drawn of the first line of the first chart, at shares of the time that it shows. */
export function drawnAt(shares: readonly number[]): boolean[];
