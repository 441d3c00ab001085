import { html, type Markup } from './html.ts';

/** 12,345 */
export function count(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

/** Three digits that count, and all before the point: 0.0312, 3.12, 31.2, 312, 3,120. */
export function figure(value: number): string {
  if (value === 0 || Math.abs(value) >= 100) return count(value);
  const decimals = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

export function milliseconds(ms: number): string {
  return `${figure(ms)} ms`;
}

/** Seconds where milliseconds would be long. */
export function duration(ms: number): string {
  return ms < 1000 ? milliseconds(ms) : `${trimmed(figure(ms / 1000))} s`;
}

export function dollars(value: number): string {
  return `$${figure(value)}`;
}

/** As a column of them: with three decimals each. */
export function dollarCell(value: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}

/** For an axis: $0, $0.05, $0.50, $2, $10k. */
export function dollarTick(value: number): string {
  return Number.isInteger(value) || value < 0.01 ? `$${short(value)}` : `$${value.toFixed(2)}`;
}

export function mebibytes(bytes: number): string {
  return `${count(bytes / 1024 / 1024)} MiB`;
}

export function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}

/** For an axis: 0.01, 1, 10, 1k, 10k, 1M. */
export function short(value: number): string {
  if (value >= 1e6) return `${trimmed(figure(value / 1e6))}M`;
  if (value >= 1e3) return `${trimmed(figure(value / 1e3))}k`;
  return value === 0 ? '0' : trimmed(figure(value));
}

/** With a capital first letter. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A number of a table: the text for people, the value for programs. */
export function data(value: number, text: string): Markup {
  return html`<data value="${value}">${text}</data>`;
}

/** @returns without zeros at the end that say nothing */
function trimmed(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
