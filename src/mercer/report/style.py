"""Colours and rules of the page, for light and dark screens, phones and paper."""

__all__ = ["DARK", "LIGHT", "SHADE", "SHEET"]

LIGHT = {"paper": "#fcfcfa", "ink": "#1c2127", "soft": "#565f69", "line": "#d9dcdf", "tint": "#eef2f6", "accent": "#1d5d97",
         "second": "#b04a12"}  # fmt: skip
DARK = {"paper": "#14181d", "ink": "#e7eaed", "soft": "#a3acb6", "line": "#363e47", "tint": "#1e252d", "accent": "#7fb6e8",
        "second": "#f2a36d"}  # fmt: skip

#: The darkest cell of a table of counts is so much of the accent on paper: text on it can still be read.
SHADE = 0.45


def _variables(colours):
    return "".join(f"--{name}:{value};" for name, value in colours.items())


SHEET = f"""
:root{{color-scheme:light dark;{_variables(LIGHT)}--text:"Iowan Old Style","Charter","Bitstream Charter","Sitka Text",Cambria,
Georgia,serif;--plain:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
--code:ui-monospace,"SF Mono","Cascadia Code",Menlo,Consolas,"DejaVu Sans Mono",monospace}}
@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%;text-size-adjust:100%}}
body{{margin:0;background:var(--paper);color:var(--ink);font:1.0625rem/1.55 var(--text)}}
main,header,footer{{max-width:66rem;margin:0 auto;padding:0 1.25rem}}
header{{padding-top:3rem}}
h1{{font-size:clamp(1.6rem,1.2rem + 2vw,2.3rem);line-height:1.2;font-weight:600;margin:0 0 .6rem;overflow-wrap:anywhere;
letter-spacing:-.01em}}
h2{{font-size:1.3rem;line-height:1.3;font-weight:600;margin:0 0 .8rem;padding-top:1.6rem;border-top:1px solid var(--line)}}
h3{{font-size:1.05rem;font-weight:600;margin:1.6rem 0 .5rem}}
p{{margin:0 0 .9rem;max-width:44rem}}
section{{margin:2.4rem 0 0}}
.lead{{font-size:1.15rem;color:var(--soft);overflow-wrap:anywhere}}
.answer{{display:flex;flex-wrap:wrap;gap:.75rem 2.5rem;margin:1.4rem 0 0;padding:0;list-style:none}}
.answer li{{min-width:9rem}}
.answer b{{display:block;font:600 2rem/1.15 var(--plain);font-variant-numeric:tabular-nums;letter-spacing:-.02em}}
.answer span{{font:.85rem/1.4 var(--plain);color:var(--soft)}}
nav ul{{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;margin:1.8rem 0 0;padding:0;font:.9rem/1.6 var(--plain)}}
a{{color:var(--accent);text-underline-offset:.18em;text-decoration-thickness:1px}}
a:focus-visible,summary:focus-visible,.wide:focus-visible{{outline:2px solid var(--accent);outline-offset:2px}}
.figures{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1.6rem 2.2rem;margin:1rem 0}}
figure{{margin:0;min-width:0;break-inside:avoid;max-width:34rem}}
.small{{grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr))}} .small figure{{max-width:24rem}}
figcaption{{font:.85rem/1.45 var(--plain);color:var(--soft);margin-top:.35rem;overflow-wrap:anywhere}}
figcaption b{{color:var(--ink);font-weight:600}}
svg{{display:block;width:100%;height:auto;overflow:visible}}
svg text{{font:12px var(--plain);fill:var(--soft)}}
svg .name,svg .count{{fill:var(--ink)}}
svg .end{{text-anchor:end}} svg .mid{{text-anchor:middle}}
svg .axis{{stroke:var(--soft);stroke-width:1;fill:none;opacity:.65}}
svg .grid{{stroke:var(--line);stroke-width:1;fill:none}}
svg .rule{{stroke:var(--soft);stroke-width:1.2;stroke-dasharray:4 3;fill:none}}
svg .line{{stroke:var(--accent);stroke-width:1.8;fill:none;stroke-linejoin:round}}
svg .dots{{stroke:var(--accent);stroke-width:3.6;stroke-linecap:round;fill:none;stroke-opacity:.7}}
svg .big{{stroke:var(--accent);stroke-width:8;stroke-linecap:round;fill:none}}
svg .range{{stroke:var(--accent);stroke-width:2.2;fill:none}}
svg .bar{{fill:var(--accent);stroke:none}} svg .cell{{fill:var(--accent)}}
svg .other.dots,svg .other.big,svg .other.range,svg .other.line{{stroke:var(--second)}} svg .other.bar{{fill:var(--second)}}
svg .plain.big,svg .plain.range{{stroke:var(--soft)}}
svg image{{image-rendering:pixelated}}
.wide{{overflow-x:auto;margin:0 0 1rem}}
table{{border-collapse:collapse;font:.875rem/1.4 var(--plain);font-variant-numeric:tabular-nums}}
.note{{font:.875rem/1.45 var(--plain);color:var(--soft);margin:1.2rem 0 .3rem}}
th,td{{text-align:left;padding:.35rem 1.1rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}}
th{{font-weight:600;white-space:nowrap}} thead th{{border-bottom:1px solid var(--soft);white-space:nowrap}}
td.n,th.n{{text-align:right;white-space:nowrap}} td{{overflow-wrap:break-word;max-width:26rem}}
tr.own td,tr.own th{{background:var(--tint)}} tr.own>:first-child{{box-shadow:-.5rem 0 0 var(--tint)}}
pre,code{{font:.85rem/1.5 var(--code)}}
pre{{background:var(--tint);padding:.8rem 1rem;margin:.8rem 0;overflow-x:auto;border-radius:4px;white-space:pre-wrap;
overflow-wrap:anywhere}}
code{{overflow-wrap:anywhere}}
.kernel{{font-size:1rem;border-left:3px solid var(--accent)}}
math{{font-family:"Latin Modern Math","STIX Two Math","Cambria Math",math,serif;font-size:1.1em}}
.formula{{overflow-x:auto;overflow-y:hidden;padding:.2rem 0 .6rem;margin:0}}
dl{{display:grid;grid-template-columns:fit-content(60%) 1fr;gap:.3rem 1.4rem;font:.9rem/1.5 var(--plain);margin:.8rem 0}}
dt{{color:var(--soft)}} dd{{margin:0;overflow-wrap:anywhere}}
ul.told{{padding-left:1.2rem;margin:0 0 .9rem;max-width:44rem;overflow-wrap:anywhere}}
details{{margin:.4rem 0 1rem}} summary{{cursor:pointer;font:.9rem/1.6 var(--plain);color:var(--accent)}}
footer{{margin-top:3rem;padding-bottom:3rem;color:var(--soft);font:.85rem/1.5 var(--plain)}}
@media print{{:root{{color-scheme:light;{_variables(LIGHT)}--paper:#ffffff}}
body{{font-size:10.5pt}} header{{padding-top:0}} nav{{display:none}} section{{margin-top:1.4rem}}
h2,h3{{break-after:avoid}} tr{{break-inside:avoid}} .wide{{overflow:visible}}
table{{font-size:8pt}} th,td{{padding:.2rem .6rem .2rem 0}} thead th{{white-space:normal}}
.figures{{grid-template-columns:repeat(2,1fr)}}
details::details-content{{content-visibility:visible;height:auto}}
svg .bar,svg .cell,tr.own td,tr.own th,pre{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
@page{{margin:16mm}}}}
"""
