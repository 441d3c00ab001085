/** Script of the `batchscore profile` report. It lays out the data that the command wrote into the page. */

import { sentence } from '../../format.ts';
import type { ReportPage } from '../wire.ts';
import { createFigure } from './charts.ts';
import { block, byId, definitions, make, table } from './dom.ts';

show(JSON.parse(byId('report').textContent ?? ''));

function show(report: ReportPage): void {
  const { title, measured, lead, reasons, facts, props, findings, charts, question, settings, runs, notes } = report;
  document.title = title;
  const drawn = charts.map((chart) => ({ chart, place: make('div') }));
  document.body.append(
    make('a', { class: 'skip', href: '#main' }, 'Skip to the recommendation'),
    make('header', {}, make('h1', {}, title), make('p', { class: 'aside' }, measured)),
    make(
      'main',
      { id: 'main' },
      make('p', { class: 'lead' }, lead),
      ...reasons.map((reason) => make('p', {}, sentence(reason))),
      definitions(facts.map(([name, value, more]) => [name, make('strong', {}, value), ` ${more}`])),
      section('Props for infra/app.ts', block('Props for infra/app.ts', props)),
      ...(findings.length === 0 ? [] : [section('Findings', list(findings))]),
      make('div', { class: 'columns' }, ...drawn.map(({ place }) => place)),
      section('Settings for the traffic', make('p', {}, sentence(question)), table(settings)),
      make('details', {}, make('summary', {}, runs.caption), table(runs)),
      section('What the figures assume', list(notes)),
    ),
  );
  for (const { chart, place } of drawn) createFigure(place)(chart);
}

function section(title: string, ...parts: readonly Node[]): HTMLElement {
  return make('section', {}, make('h2', {}, title), ...parts);
}

function list(sentences: readonly string[]): HTMLElement {
  return make('ul', {}, ...sentences.map((one) => make('li', {}, sentence(one))));
}
