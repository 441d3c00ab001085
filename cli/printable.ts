/**
 * A text with its control characters spelled as JSON has them, such as `\u001b`: names in a model file may hold what a
 * terminal takes for commands.
 */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
