import type { ProfileReport } from '../../report.ts';
import { count, dollars, duration, percent, sentence } from '../format.ts';
import { type Content, html, type Markup } from '../html.ts';
import { rowsName } from '../runGroups.ts';
import { verdictOf } from './verdict.ts';

/** What to do, why, what it comes to, and whether rows may share runs: all that most readers need. */
export function recommendationSection(report: ProfileReport): Markup {
  const { recommendation, measured } = report;
  const { mark, title, explanation } = verdictOf(measured.safety);
  return html`<section id="recommendation"><h2>Recommendation</h2>
<p class="lead">${headline(recommendation)}</p>
<p>${sentence(recommendation.reason)}.</p>
<dl class="facts">
${factsOf(report).map(
  ([name, value, more]) => html`<div><dt>${name}</dt><dd><strong>${value}</strong> ${more}</dd></div>
`,
)}</dl>
<div class="pair">
<div class="verdict"><span class="sign" aria-hidden="true">${mark}</span><div><h3>${title}</h3><p>${explanation}</p></div></div>
<div><h3>For cdk.json</h3>
<pre tabindex="0" role="region" aria-label="Fragment for cdk.json"><code>${JSON.stringify({ context: recommendation.context }, null, 2)}</code></pre>
<p class="aside"><code>batchscore profile --apply</code> writes it there.</p></div>
</div></section>
`;
}

function headline({ batchSize, windowSeconds }: ProfileReport['recommendation']): string {
  if (batchSize === 1) return 'Do not batch: hand over one message at a time.';
  const wait =
    windowSeconds === 0 ? 'without waiting for them' : `wait ${duration(1000 * windowSeconds)} for them at most`;
  return `Hand over up to ${count(batchSize)} messages at a time; ${wait}.`;
}

function factsOf({
  answer: { chosen, oneByOne },
  recommendation,
  question,
}: ProfileReport): [string, string, Content][] {
  const { batchSize, memoryMb, maximumConcurrency, maxBatchRows, dollarsPerMillionRows } = recommendation;
  const single = dollars(oneByOne.dollarsPerMillionRows.total);
  return [
    ['Cost', dollars(dollarsPerMillionRows), `a million rows${batchSize === 1 ? '' : `; one by one ${single}`}`],
    ['99 % answered within', duration(chosen.p99AgeMs), `of the budget of ${duration(question.budgetMs)}`],
    [
      'Messages an invocation',
      chosen.messagesPerInvocation.toFixed(1),
      `on average, ${percent(chosen.fill)} of the batch size`,
    ],
    [
      'Function',
      `${count(memoryMb)} MB`,
      `up to ${count(maximumConcurrency)} at a time, ${rowsName(maxBatchRows)} a run at most`,
    ],
  ];
}
