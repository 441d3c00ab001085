import type { ProfileReport } from '../report.ts';
import { type Content, html, type Markup } from './html.ts';
import { aboutSection, dateOf, findingsSection } from './sections/about.ts';
import { coldStartFigure } from './sections/coldStart.ts';
import { costsSection } from './sections/costs.ts';
import { memoryFigure } from './sections/memory.ts';
import { paddingSection } from './sections/padding.ts';
import { recommendationSection } from './sections/recommendation.ts';
import { runsSection } from './sections/runs.ts';
import { settingsSection } from './sections/settings.ts';
import { STYLES } from './styles.ts';

/**
 * A profile as one HTML file, which holds all that it needs: no script, no font and nothing else is fetched.
 *
 * @returns the file's content
 */
export async function renderPage(report: ProfileReport): Promise<string> {
  const { model, version, date, machine } = report.measured;
  const findings = findingsSection(report);
  const process = html`<section id="process"><h2>What a process takes</h2>
<div class="figures">
${await memoryFigure(report)}${await coldStartFigure(report)}</div></section>
`;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Profile of ${model}, version ${version}</title>
<style>${STYLES}</style>
</head>
<body>
<a class="skip" href="#recommendation">To the recommendation</a>
<header>
<p class="kind">batchscore profile</p>
<h1>${model} <span class="version">version ${version}</span></h1>
<p class="aside">Measured on ${dateOf(date)}, ${machine.cores} ${machine.cores === 1 ? 'core' : 'cores'} of ${machine.cpu}</p>
</header>
${contentsOf(findings !== undefined)}
<main>
${recommendationSection(report)}${findings}${await runsSection(report)}${await paddingSection(report)}${process}${await settingsSection(report)}${await costsSection(report)}${aboutSection(report)}</main>
<footer><p>Written by <code>batchscore profile</code>, beside profile.json, which holds what was measured.</p></footer>
</body>
</html>
`;
  return page.text;
}

function contentsOf(hasFindings: boolean): Markup {
  const links: readonly Content[] = [
    link('recommendation', 'Recommendation'),
    hasFindings ? link('findings', 'Findings') : undefined,
    link('runs', 'Runs'),
    link('padding', 'Padding'),
    link('process', 'Memory and start'),
    link('settings', 'Settings'),
    link('cost', 'Cost'),
    link('about', 'Basis'),
  ];
  return html`<nav aria-label="Sections"><ul>${links}</ul></nav>`;
}

function link(id: string, name: string): Markup {
  return html`<li><a href="#${id}">${name}</a></li>`;
}
