import type { ProfileReport } from '../../report.ts';
import { count, sentence } from '../format.ts';
import { html, type Markup } from '../html.ts';

/** What was found besides; nothing where nothing was. */
export function findingsSection({ measured: { findings } }: ProfileReport): Markup | undefined {
  if (findings.length === 0) return undefined;
  return html`<section id="findings"><h2>Findings</h2>
<ul class="findings">${findings.map((finding) => html`<li>${sentence(finding).replace(/\.?$/, '.')}</li>`)}</ul></section>
`;
}

/** On what all this was measured, and what is assumed in it. */
export function aboutSection({ measured, notes, question: { prices } }: ProfileReport): Markup {
  const { machine, versions, provider, threads, digest, date } = measured;
  const facts: readonly (readonly [string, string])[] = [
    ['Measured', `${dateOf(date)}, ${date.slice(11, 16)} UTC`],
    [
      'Machine',
      `${machine.cpu}, ${count(machine.cores)} ${machine.cores === 1 ? 'core' : 'cores'}, ${machine.architecture}, ${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB`,
    ],
    [
      'Execution provider',
      `${provider}, ${threads} ${threads === 1 ? 'thread' : 'threads'} as it is deployed on such a machine`,
    ],
    ['Versions', `batchscore ${versions.batchscore}, Node ${versions.node}, ONNX Runtime ${versions.onnxruntime}`],
    ['Model', digest],
    ['Prices', `${prices.date}, ${prices.region}`],
  ];
  return html`<section id="about"><h2>On what this stands</h2>
<dl class="about">
${facts.map(
  ([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>
`,
)}</dl>
<h3>Assumed in all figures</h3>
<ul>${notes.map((note) => html`<li>${note}</li>`)}</ul></section>
`;
}

/** 22 November 2026 */
export function dateOf(iso: string): string {
  return new Date(iso).toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' });
}
