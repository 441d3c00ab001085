import { trusted } from './html.ts';
import { DARK, LIGHT, variablesOf } from './theme.ts';

/** The page's style sheet, for screens of all widths, light and dark, and for paper. */
export const STYLES = trusted(`
:root{color-scheme:light dark;${variablesOf(LIGHT)}}
@media screen and (prefers-color-scheme:dark){:root{${variablesOf(DARK)}}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;background:var(--page);color:var(--ink)}
body{margin:0 auto;max-width:1104px;padding:32px 16px 64px;font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:break-word}
p,ul{max-width:68ch;margin:0 0 12px}
ul{padding-left:20px}
a{color:var(--accent)}
a:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:2px solid var(--accent);outline-offset:3px}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:14px}
h1,h2,h3{line-height:1.25;text-wrap:balance}
h1{font-size:36px;letter-spacing:-.02em;margin:0 0 4px}
h2{font-size:24px;letter-spacing:-.01em;margin:0 0 16px}
h3{font-size:16px;margin:24px 0 8px}
section{margin-top:48px;scroll-margin-top:16px}
.version{font-weight:400;color:var(--muted);font-size:22px;letter-spacing:0;white-space:nowrap}
.kind,.aside{color:var(--muted);font-size:14px;margin-bottom:4px}
.skip{position:absolute;left:-9999px}
.skip:focus{left:16px;top:8px;background:var(--page);padding:4px 8px}
nav ul{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;padding:12px 0;margin:20px 0 0;max-width:none;border-block:1px solid var(--grid);font-size:14px}
nav a{text-decoration:none;display:inline-block;padding:4px 0}
nav a:hover{text-decoration:underline}
nav+main>section:first-child{margin-top:32px}
.lead{font-size:28px;line-height:1.25;letter-spacing:-.015em;font-weight:600;max-width:32ch;text-wrap:balance;margin-bottom:12px}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,150px),1fr));gap:20px 24px;margin:24px 0}
.facts div{border-top:2px solid var(--accent);padding-top:8px}
.facts dt{color:var(--muted);font-size:14px}
.facts dd{margin:0;font-size:14px;font-variant-numeric:tabular-nums}
.facts strong{display:block;font-size:26px;line-height:1.3;letter-spacing:-.01em}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,328px),1fr));gap:24px 40px;align-items:start}
.pair h3{margin-top:0}
.verdict{display:flex;gap:14px;background:var(--raised);border-radius:8px;padding:14px 16px}
.verdict h3,.verdict p{margin:0}
.sign{flex:none;width:28px;height:28px;border:2px solid var(--ink);border-radius:50%;display:grid;place-items:center;font-weight:700;line-height:1}
pre{background:var(--raised);border-radius:8px;padding:14px 16px;margin:0 0 8px;overflow-x:auto}
.findings li{margin-bottom:6px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,max(328px,40%)),1fr));gap:0 40px}
figure,.figures>div{margin:0 0 36px;min-width:0}
.figures.wide{grid-template-columns:repeat(auto-fit,minmax(min(100%,508px),1fr))}
.figures>div{grid-row:span 3}.figures>div>h3:first-child{margin-top:0}
figure{display:grid;grid-template-columns:minmax(0,1fr);grid-template-rows:subgrid;grid-row:span 3}
.drawing{container-type:inline-size}
figcaption h3{margin:0 0 4px}
figcaption p{font-size:14px;color:var(--muted);margin:0 0 12px}
svg{display:block;max-width:100%;font-family:inherit;font-variant-numeric:tabular-nums}
svg text{paint-order:stroke;stroke:var(--page);stroke-width:3px;stroke-linejoin:round}
svg.narrow{width:328px}
svg.wide{width:508px;display:none}
@container (min-width:508px){svg.narrow{display:none}svg.wide{display:block}}
details{margin-top:8px;font-size:14px}
details.more{margin-top:0;font-size:16px}details.more>summary{margin-bottom:20px;font-size:14px}
summary{cursor:pointer;color:var(--accent);padding:4px 0}
.scroll{overflow-x:auto;max-width:100%;margin-bottom:12px}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
th,td{text-align:right;padding:5px 0 5px 20px;border-bottom:1px solid var(--grid);white-space:nowrap;font-weight:400}
th:first-child,td:first-child{padding-left:8px}
th:last-child,td:last-child{padding-right:8px}
thead th{color:var(--muted);border-bottom-color:var(--rule);vertical-align:bottom}
.text{text-align:left}
.chosen>*{background:var(--raised);font-weight:600}
.said{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.about div{display:grid;grid-template-columns:minmax(0,11em) minmax(0,1fr);gap:4px 16px;padding:6px 0;border-bottom:1px solid var(--grid)}
.about dt{color:var(--muted)}
.about dd{margin:0;overflow-wrap:anywhere}
footer{margin-top:48px;color:var(--muted);font-size:14px}
@media (max-width:480px){
h1{font-size:30px}.lead{font-size:24px}
.about div{grid-template-columns:1fr}
}
@page{size:A4;margin:15mm}
@media print{
body{padding:0;max-width:none;font-size:10.5pt}
nav,.skip,details,footer{display:none}
section{margin-top:24px}
figure,.verdict,pre,tr,.about,.facts div{break-inside:avoid}
h2,h3{break-after:avoid}
.figures{grid-template-columns:1fr 1fr;gap:0 16px}figure,.figures>div{margin-bottom:14px}.figures.wide{grid-template-columns:1fr}
.scroll{overflow:visible}
table{font-size:8.5pt}
th,td{padding:3px 0 3px 10px}
*{print-color-adjust:exact}
}
`);
