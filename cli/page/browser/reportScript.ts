/** Script of the `batchscore profile` report. It lays out the data that the command wrote into the page. */

import { sentence } from '../../format.ts';
import type { ReportPage } from '../wire.ts';
import { createFigure } from './charts.ts';
import { block, byId, make, table } from './dom.ts';

show(JSON.parse(byId('report').textContent ?? ''));

function show(report: ReportPage): void {
  const { title, measured, lead, reasons, props, findings, chart, question, settings, notes } = report;
  document.title = title;
  const drawing = make('div');
  document.body.append(
    make('header', {}, make('h1', {}, title), make('p', { class: 'aside' }, measured)),
    make(
      'main',
      {},
      make('p', { class: 'lead' }, lead),
      ...reasons.map((reason) => make('p', {}, sentence(reason))),
      section('Props for infra/app.ts', block('Props for infra/app.ts', props)),
      ...(findings.length === 0 ? [] : [section('Findings', list(findings))]),
      section('Settings for the traffic', make('p', {}, sentence(question)), table(settings)),
      section('Runs of the model', make('p', {}, sentence(chart.words)), drawing),
      section('What the figures assume', list(notes)),
    ),
  );
  createFigure(drawing)(chart);
}

function section(title: string, ...parts: readonly Node[]): HTMLElement {
  return make('section', {}, make('h2', {}, title), ...parts);
}

function list(sentences: readonly string[]): HTMLElement {
  return make('ul', {}, ...sentences.map((one) => make('li', {}, sentence(one))));
}
