import { dirname } from 'node:path';
import type { Block } from './blocks.ts';

/** A block that is run, and what the page says that it prints. */
export interface Step {
  readonly block: Block;
  /** `…` stands for anything. */
  readonly printed: string | undefined;
}

/** The blocks that a shell is given, in their order: what is run has the `text` block behind it as what it prints. */
export function stepsOf(blocks: readonly Block[]): Step[] {
  return blocks.flatMap((block, index) => {
    if (block.language === 'text') return [];
    const { language, text } = blocks[index + 1] ?? {};
    return [{ block, printed: language === 'text' ? text : undefined }];
  });
}

/**
 * One script for bash, as a reader has one shell: what a block exports, activates or enters holds for those behind it. Each
 * step's stdout goes to a file of its own, `.printed/<number>`.
 */
export function scriptOf(steps: readonly Step[]): string {
  return `set -euo pipefail
exec 3>&1
recipes=$PWD
dev=
stop_dev() {
  [ -n "$dev" ] || return 0
  kill -- -"$dev" 2>/dev/null || true
  while kill -0 -- -"$dev" 2>/dev/null; do sleep 0.1; done
}
trap 'stop_dev; kill $(jobs -p) 2>/dev/null || true' EXIT
mkdir -p .printed
${steps.map(({ block }, index) => `${headingOf(block, steps[index - 1]?.block)}${commandsOf(block, index)}`).join('')}`;
}

function headingOf({ section }: Block, before: Block | undefined): string {
  return section === before?.section ? '' : `printf '%(%T)T %s\\n' -1 '${section}'\n`;
}

function commandsOf({ language, name, text }: Block, index: number): string {
  const begin = `exec >"$recipes/.printed/${index}"\n`;
  const end = 'exec >&3\n';
  if (language !== 'sh') {
    return `${begin}mkdir -p '${dirname(name)}'\ncat > '${name}' <<'END_OF_BLOCK'\n${text}END_OF_BLOCK\n${end}`;
  }
  if (name !== 'dev') return `${begin}${text}${end}`;
  return `${begin}stop_dev
rm -f stack.json
set -m
{ ${text} } 2>"$recipes/.printed/dev.log" &
dev=$!
set +m
until [ -s stack.json ]; do
  kill -0 "$dev" || { cat "$recipes/.printed/dev.log" >&2; exit 1; }
  sleep 0.2
done
${end}`;
}

/** Whether what was printed is what the page says, in which `…` stands for anything. */
export function isPrinted(expected: string, printed: string): boolean {
  const pattern = expected.trim().split('…').map(RegExp.escape).join('[\\s\\S]*');
  return new RegExp(`^${pattern}$`).test(printed.trim());
}
