// The style sheet of the report: a light and a dark theme, and columns that become one on a phone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace yaglom::tools {

/// Colors are those of Okabe and Ito, which color-blind readers tell apart, brighter in the dark.
inline constexpr const char *kStyle = R"css(
:root { color-scheme: light dark; --paper: #f6f7f9; --card: #ffffff; --ink: #1b2430; --soft: #5b6675; --grid: #e3e7ec;
  --axis: #9aa5b1; --accent: #0067b1; --good: #e8f3fb;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b0478a; --c4: #b07d00; --c5: #2a9bd6; --c6: #6a4fb3; --c7: #5d6b78; }
@media (prefers-color-scheme: dark) { :root { --paper: #10151b; --card: #19212a; --ink: #e7ecf2; --soft: #9fadbb;
  --grid: #2a3541; --axis: #5b6977; --accent: #62b5f0; --good: #1c3346;
  --c0: #56b4e9; --c1: #f28c4a; --c2: #2fc79b; --c3: #e08bc2; --c4: #e6b84c; --c5: #8fd0f5; --c6: #a995ea; --c7: #a9b5c1; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1220px; margin: 0 auto; padding: 28px 20px 56px; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 1.25rem; margin: 40px 0 14px; }
h3 { font-size: 1rem; margin: 0; }
p { margin: 0; }
header p, figcaption p, .note { color: var(--soft); font-size: 0.9rem; }
.tiles { display: flex; flex-wrap: wrap; gap: 14px; margin: 22px 0 0; padding: 0; list-style: none; }
.tiles li { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; padding: 12px 18px; flex: 1 1 190px; }
.tiles strong { display: block; font-size: 1.6rem; line-height: 1.2; color: var(--accent); }
.tiles span { color: var(--soft); font-size: 0.875rem; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 20px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--grid); border-radius: 10px; padding: 16px 18px 10px; }
figure.wide { margin-bottom: 20px; }
figcaption { margin-bottom: 6px; }
figcaption p { min-height: 1.5em; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 10px 0 4px; padding: 0; list-style: none; font-size: 0.85rem; }
.legend li { display: flex; align-items: center; gap: 7px; color: var(--ink); overflow-wrap: anywhere; }
.key { width: 28px; height: 14px; flex: none; }
.chart { display: block; width: 100%; height: auto; }
.grid { stroke: var(--grid); stroke-width: 1; }
.axis { stroke: var(--axis); stroke-width: 1.2; }
.tick { fill: var(--soft); font-size: 12.5px; }
.label { fill: var(--soft); font-size: 13px; }
.line { fill: none; stroke: currentColor; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
.dashed { stroke-dasharray: 7 5; }
.mark { fill: currentColor; stroke: var(--card); stroke-width: 1.2; }
.hit { fill: transparent; }
.point:hover .mark { stroke: var(--ink); stroke-width: 2; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); } .c7 { color: var(--c7); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.875rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px 6px 0; text-align: left; border-bottom: 1px solid var(--grid); white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; }
.card { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; padding: 10px 18px; }
.tuning th { font: 0.8rem/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-weight: 400; }
.tuning .bars { width: 60%; min-width: 140px; }
.tuning tr:last-child > * { border-bottom: 0; }
.bar { display: block; width: 100%; height: 12px; }
.bar rect { fill: var(--axis); }
.chosen > * { background: var(--good); }
.chosen th { font-weight: 700; }
.chosen .bar rect { fill: var(--accent); }
.value { text-align: right; }
.rejected { color: var(--soft); white-space: normal; }
footer { margin-top: 36px; color: var(--soft); font-size: 0.85rem; }
)css";

} // namespace yaglom::tools
