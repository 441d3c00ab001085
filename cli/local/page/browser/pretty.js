/**
 * JSON text with line breaks, an array of plain values on one line; another text as it is.
 *
 * @param {string} text
 */
export function prettyOf(text) {
  try {
    return spell(JSON.parse(text), '');
  } catch {
    return text;
  }
}

/**
 * @param {unknown} value
 * @param {string} indent
 * @returns {string}
 */
function spell(value, indent) {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const deeper = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.every((one) => typeof one !== 'object' || one === null))
      return `[${value.map((one) => JSON.stringify(one)).join(', ')}]`;
    return `[\n${value.map((one) => deeper + spell(one, deeper)).join(',\n')}\n${indent}]`;
  }
  const lines = Object.entries(value).map(([key, one]) => `${deeper}${JSON.stringify(key)}: ${spell(one, deeper)}`);
  return `{\n${lines.join(',\n')}\n${indent}}`;
}
