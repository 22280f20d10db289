"""Sequence diagrams, as GitHub shows them of a block `mermaid`, as SVG: of that language only participants, messages and notes."""
import html
import re

WIDTH, ROW, TOP = 240, 44, 50


def svg(source):
    names, rows = {}, []
    for line in source.splitlines():
        line = line.strip()
        if m := re.fullmatch(r"participant (\w+) as (.+)", line):
            names[m[1]] = m[2]
        elif m := re.fullmatch(r"(\w+)(--?>>|-x)(\w+): (.+)", line):
            rows.append((m[2], m[1], m[3], m[4]))
        elif m := re.fullmatch(r"Note over (\w+): (.+)", line):
            rows.append(("note", m[1], m[1], m[2]))
        elif line and line != "sequenceDiagram":
            raise SystemExit(f"a diagram has a line that docs/site/diagram.py does not know: {line}")
    x = {name: WIDTH * i + WIDTH // 2 for i, name in enumerate(names)}
    wide, high = WIDTH * len(names), TOP + ROW * len(rows) + 20
    out = [f'<svg class="diagram" role="img" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" aria-label="{html.escape(words(names, rows))}">',
           '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="currentColor"/></marker></defs>']
    for name, title in names.items():
        out.append(f'<line class="line" x1="{x[name]}" y1="34" x2="{x[name]}" y2="{high}" stroke-dasharray="3 4"/>')
        out.append(f'<rect class="box" x="{x[name] - WIDTH // 2 + 10}" y="4" width="{WIDTH - 20}" height="30" rx="4"/>')
        out.append(text(x[name], 24, title))
    for i, (kind, a, b, what) in enumerate(rows):
        y = TOP + ROW * i + 28
        if kind == "note":
            box = min(len(what) * 7 + 24, wide - 4)
            middle = min(max(x[a], box // 2 + 2), wide - box // 2 - 2)
            out.append(f'<rect class="note" x="{middle - box // 2}" y="{y - 22}" width="{box}" height="28" rx="2"/>')
            out.append(text(middle, y - 3, what))
            continue
        dash = ' stroke-dasharray="5 4"' if kind == "-->>" else ""
        end = (x[a] + x[b]) // 2 if kind == "-x" else x[b]
        mark = "" if kind == "-x" else ' marker-end="url(#arrow)"'
        out.append(text((x[a] + x[b]) // 2, y - 6, what))
        out.append(f'<line class="line" x1="{x[a]}" y1="{y}" x2="{end}" y2="{y}"{dash}{mark}/>')
        if kind == "-x":
            out.append(text(end, y + 5, "✕"))
    return "".join(out) + "</svg>"


def text(x, y, what):
    return f'<text x="{x}" y="{y}" text-anchor="middle">{html.escape(what)}</text>'


def words(names, rows):
    """The same for screen readers."""
    return ". ".join(f"{names[a]}: {what}" if kind == "note" else f"{names[a]} to {names[b]}: {what}{' (lost)' if kind == '-x' else ''}" for kind, a, b, what in rows)
