"""How the page looks: one column that fits a phone, a screen and paper."""

STYLE = """
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: #fff; color: #1b1b1b;
  font: 1rem/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.2rem 0 .6rem; border-bottom: 2px solid #0072b2; }
p, ul { margin: .6rem 0; }
ul { padding-left: 1.2rem; }
.headline { font-size: 1.2rem; line-height: 1.4; font-weight: 600; margin: .8rem 0; padding-left: .8rem;
  border-left: .3rem solid #0072b2; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1rem; list-style: none; padding: .6rem 0; font-size: .9rem;
  border-top: 1px solid #ccc; }
a { color: #005a8c; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .875rem; line-height: 1.35; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
caption { text-align: left; padding: .2rem 0; color: #555; }
caption span { display: inline-block; position: sticky; left: 0; max-width: min(100%, calc(100vw - 2rem)); }
th, td { padding: .3rem 1rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd; }
thead th, thead td { border-bottom: 1px solid #888; vertical-align: bottom; }
tbody th { font-weight: 600; position: sticky; left: 0; background: #fff; }
.number { text-align: right; }
td.number { white-space: nowrap; }
.fold { min-width: 10rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  tbody th { min-width: 7.5rem; overflow-wrap: anywhere; }
  thead .number { white-space: nowrap; }
  .fold { min-width: 18rem; }
}
figure { margin: .8rem 0; }
img { display: block; max-width: 100%; height: auto; }
figcaption { font-size: .9rem; color: #444; margin-top: .3rem; }
summary { cursor: pointer; font-size: .9rem; color: #005a8c; }
details .scroll { max-height: 30rem; overflow-y: auto; }
pre { overflow-x: auto; background: #f4f5f6; padding: .7rem; font-size: .8125rem; line-height: 1.45;
  overflow-wrap: normal; }
:focus-visible { outline: 2px solid #0072b2; }
@page { margin: 14mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav, details:not([open]) { display: none; }
  h1, h2, caption, summary { break-after: avoid; }
  h2 { margin-top: 1.2rem; }
  figure, tr, li { break-inside: avoid; }
  thead, tbody tr:first-child { break-after: avoid; }
  tbody tr:last-child { break-before: avoid; }
  img { width: auto; max-height: 100mm; }
  .scroll, details .scroll, pre { overflow: visible; max-height: none; }
  table { font-size: 8pt; width: 100%; }
  th, td { padding-right: .8rem; }
  td.number { white-space: normal; }
  tbody th { position: static; }
  .fold { min-width: 0; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 8pt; }
}
"""
