/** Script of the `batchscore profile` report. It lays out the data that the command wrote into the page. */

import { sentence } from '../../format.ts';
import type { ReportPage, TableShown } from '../wire.ts';
import { createFigure } from './charts.ts';
import { block, byId, definitions, make, table } from './dom.ts';

show(JSON.parse(byId('report').textContent ?? ''));

function show(report: ReportPage): void {
  const { model, version, measured, findings } = report;
  document.title = `Profile of ${model}, version ${version}`;
  const sections: readonly (readonly [id: string, title: string, ...parts: readonly Node[]])[] = [
    ['recommendation', 'Recommendation', ...recommendation(report)],
    ...(findings.length === 0 ? [] : [['findings', 'Findings', list(findings)] as const]),
    ['charts', 'Charts', ...charts(report)],
    ['settings', 'Settings for the traffic', make('p', {}, report.question), tableOf(report.settings)],
    ['about', 'What this is based on', ...about(report)],
  ];
  const links = sections.map(([id, title]) => make('a', { href: `#${id}` }, title));
  document.body.append(
    make('a', { class: 'skip', href: '#recommendation' }, 'To the recommendation'),
    make(
      'header',
      {},
      make('p', { class: 'aside' }, 'batchscore profile'),
      make('h1', {}, `${model} `, make('span', { class: 'version' }, `version ${version}`)),
      make('p', { class: 'aside' }, measured),
    ),
    make('nav', { 'aria-label': 'Sections' }, ...links),
    make(
      'main',
      {},
      ...sections.map(([id, title, ...parts]) => make('section', { id }, make('h2', {}, title), ...parts)),
    ),
  );
  for (const { id, ...chart } of report.charts) createFigure(byId(id))(chart);
}

function recommendation({ lead, reason, facts, sharesRuns, safety, props }: ReportPage): Node[] {
  const sign = make('span', { class: 'sign', 'aria-hidden': 'true' }, sharesRuns ? '✓' : '✕');
  const label = 'Props for infra/app.ts';
  const copied = make('div', {}, make('h3', {}, label), block(label, props));
  return [
    make('p', { class: 'lead' }, lead),
    make('p', {}, sentence(reason)),
    definitions(
      'facts',
      facts.map(([name, value, more]) => [name, make('strong', {}, value), ` ${more}`]),
    ),
    make('div', { class: 'pair' }, make('div', { class: 'verdict' }, sign, make('p', {}, sentence(safety))), copied),
  ];
}

function charts({ charts: all, remarks, runs }: ReportPage): Node[] {
  return [
    make('div', { class: 'cards' }, ...all.map(({ id }) => make('div', { id }))),
    ...remarks.map((remark) => make('p', {}, remark)),
    make('details', {}, make('summary', {}, runs.caption), tableOf(runs)),
  ];
}

function about({ about: facts, notes }: ReportPage): Node[] {
  return [definitions('about', facts), make('h3', {}, 'Assumed in all figures'), list(notes)];
}

function list(sentences: readonly string[]): HTMLElement {
  return make('ul', {}, ...sentences.map((one) => make('li', {}, sentence(one))));
}

function tableOf({ caption, heads, rows, chosen }: TableShown): HTMLElement {
  return table(caption, heads, rows, chosen);
}
