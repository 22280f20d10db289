#!/usr/bin/env python3
"""Stages the pages of the site for MkDocs, and looks at the links of what was built. Used by scripts/docs.

  pages.py stage ROOT TO    README.md, CHANGELOG.md and the like, docs/ and the files to which they link, into TO
  pages.py index SITE       the index of the search, of what was built
  pages.py check SITE       every link leads to a file and an anchor of SITE; no page loads anything from elsewhere
"""
import html.parser
import json
import os
import pathlib
import re
import shutil
import sys
import urllib.parse

import diagram

# Pages that lie elsewhere in the tree, and their names on the site.
TOP = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md"}
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".lua": "lua", ".cmake": "cmake", ".py": "python", ".json": "json", ".yml": "yaml"}

REFERENCE = """# Reference

Made of the comments in `include/conch`, where an editor shows them too: [all classes](reference/annotated.html)
and [all functions and types of the namespace](reference/namespaceconch.html).

## What most programs use: `<conch/conch.hpp>`

| | |
|---|---|
| a client and its settings | [client](reference/classconch_1_1client.html), [config](reference/structconch_1_1config.html) (as a table: [settings](settings.md)) |
| locks | [mutex](reference/classconch_1_1mutex.html), [semaphore](reference/classconch_1_1semaphore.html), [shared_mutex](reference/classconch_1_1shared__mutex.html), [reentrant_mutex](reference/classconch_1_1reentrant__mutex.html), [multi_lock](reference/classconch_1_1multi__lock.html) |
| what all locks have | [named_lock](reference/classconch_1_1named__lock.html), [lock_options](reference/structconch_1_1lock__options.html), [acquire_options](reference/structconch_1_1acquire__options.html) |
| holds | [hold](reference/classconch_1_1hold.html), [reentrant_hold](reference/classconch_1_1reentrant__hold.html), [multi_hold](reference/classconch_1_1multi__hold.html) |

## The rest: headers of their own, or `<conch/all.hpp>`

| | |
|---|---|
| more locks | [striped_mutex](reference/classconch_1_1striped__mutex.html), [reentrant_shared_mutex](reference/classconch_1_1reentrant__shared__mutex.html) |
| for threads | [blocking::client](reference/classconch_1_1blocking_1_1client.html), [blocking::mutex](reference/classconch_1_1blocking_1_1mutex.html), [blocking::shared_mutex](reference/classconch_1_1blocking_1_1shared__mutex.html) |
| guards, observers, figures | [write_guard](reference/structconch_1_1write__guard.html), [observer](reference/classconch_1_1observer.html), [statistics](reference/structconch_1_1statistics.html) |
"""


def anchor(title, separator="-"):
    """As GitHub names the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


class Stage:
    def __init__(self, root, to):
        self.root, self.to = pathlib.Path(root).resolve(), pathlib.Path(to)
        self.places = dict(TOP)  # path in the tree -> path on the site
        self.todo = []
        for page in sorted(self.root.glob("docs/**/*.md")):
            path = page.relative_to(self.root).as_posix()
            self.places[path] = path.removeprefix("docs/")
        self.todo += self.places

    def run(self):
        while self.todo:
            path = self.todo.pop()
            source, place = self.root / path, self.to / self.places[path]
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                place.write_text(self.folder(path))
            elif path.endswith(".md"):
                place.write_text(self.page(path, source.read_text()))
            elif source.suffix in (".svg", ".png", ".webp"):
                shutil.copyfile(source, place)
            else:
                place.write_text(f"# {path}\n\n```{LANGUAGES.get(source.suffix, '')}\n{source.read_text().rstrip()}\n```\n")
        (self.to / "reference.md").write_text(REFERENCE)
        (self.to / "benchmarks/figures.md").write_text(self.figures())

    def figures(self):
        """Tables of all figures that scripts/bench --docs wrote as JSON."""
        lines = ["# All figures", "", "Made of `results.json` and `growth.json`, which `scripts/bench --docs` writes. [Benchmarks](README.md) explains them.", ""]
        number = lambda n: "" if n is None else f"{n:.4g}" if abs(n) < 1e4 else f"{n:,.0f}"
        text = lambda s: s.replace("|", "\\|")
        for name in ("results", "growth", "zookeeper"):
            figure = None
            for row in json.loads((self.root / f"docs/benchmarks/{name}.json").read_text()):
                if row["figure"] != figure:
                    figure = row["figure"]
                    lines += ["", f"## {figure} ({name})", "", "| case | library | value | unit | compared with | its value | ratio |", "|---|---|--:|---|---|--:|--:|"]
                lines.append(f"| {text(row['case'])} | {text(row['peer'])} | {number(row['value'])} | {row['unit']} | {text(row['against'])} | {number(row['floor'])} | {number(row['ratio'])} |")
        return "\n".join(lines) + "\n"

    def place(self, path):
        """Where a file of the tree is on the site; one that no page was made of yet becomes one."""
        if path not in self.places:
            source = self.root / path
            picture = source.suffix in (".svg", ".png", ".webp")
            self.places[path] = path.removeprefix("docs/") if picture else f"source/{path}.md"
            self.todo.append(path)
        return self.places[path]

    def folder(self, path):
        files = sorted(f for f in (self.root / path).rglob("*") if f.is_file() and f.suffix in LANGUAGES)
        lines = [f"# {path}", ""]
        for file in files:
            name = file.relative_to(self.root).as_posix()
            lines.append(f"- [{file.relative_to(self.root / path)}]({self.relative(path, name)})")
        return "\n".join(lines) + "\n"

    def relative(self, of, path):
        return os.path.relpath(self.place(path), os.path.dirname(self.places[of]))

    def link(self, of, match):
        target, rest = match.group(1), match.group(2) or ""
        if re.match(r"[a-z]+:", target):
            return match.group(0)
        path = os.path.normpath(os.path.join(os.path.dirname(of), target))
        if path.startswith("..") or not (self.root / path).exists():
            raise SystemExit(f"{of} links to {target}, which is not there")
        return f"]({self.relative(of, path)}{rest})"

    def page(self, path, text):
        """Links to their places on the site; lists as Python-Markdown wants them: behind an empty line, indented by 4 instead of 2."""
        out, fence = [], None
        text = re.sub(r"^```mermaid\n(.*?)^```\n", lambda m: diagram.svg(m[1]) + "\n", text, flags=re.M | re.S)
        for line in text.splitlines():
            mark = re.match(r" *```", line)
            indent = len(line) - len(line.lstrip(" "))
            if mark or fence is not None:
                out.append(" " * (2 * (indent if fence is None else fence) + (0 if fence is None else indent - fence)) + line.lstrip(" ") if line else line)
                if mark:
                    fence = indent if fence is None else None
                continue
            parts = re.split(r"(`[^`]*`)", line.lstrip(" "))
            # A code span in the text of a link does not end the link.
            line = " " * (2 * indent) + "".join(parts)
            line = re.sub(r"\]\(([^)\s#`]+)(#[^)\s`]*)?\)", lambda m: self.link(path, m), line)
            bullet = re.match(r" *([-*]|\d+\.) ", line)
            if bullet and out and out[-1].strip() and not re.match(r" *([-*]|\d+\.) |  ", out[-1]):
                out.append("")
            if line.lstrip().startswith("|") and out and out[-1].strip() and not out[-1].lstrip().startswith("|"):
                out.append("")
            out.append(line)
        return "\n".join(out) + "\n"


class Sections(html.parser.HTMLParser):
    """The sections of a page: the anchor and words of each heading, and the words below it."""

    def __init__(self):
        super().__init__()
        self.all, self.inside, self.heading = [], 0, False

    def handle_starttag(self, tag, attributes):
        if tag == "main":
            self.inside += 1
        elif self.inside and tag in ("h1", "h2", "h3"):
            self.all.append([dict(attributes).get("id", ""), "", ""])
            self.heading = True
        elif self.inside and tag in ("details", "svg"):
            self.inside += 100  # neither its contents nor its pictures

    def handle_endtag(self, tag):
        if tag == "main":
            self.inside -= 1
        elif tag in ("h1", "h2", "h3"):
            self.heading = False
        elif tag in ("details", "svg") and self.inside >= 100:
            self.inside -= 100

    def handle_data(self, data):
        if self.inside == 1 and self.all:
            self.all[-1][1 if self.heading else 2] += data


def index(site):
    site, rows = pathlib.Path(site), []
    for file in sorted(site.rglob("*.html")):
        name = file.relative_to(site).as_posix()
        if name.startswith(("reference/", "source/")):
            continue
        page = Sections()
        page.feed(file.read_text())
        title = page.all[0][1] if page.all else name
        for anchor_of, heading, words in page.all:
            rows.append([f"{name}#{anchor_of}" if anchor_of else name, heading if heading == title else f"{title}: {heading}", " ".join(words.split())])
    if len(rows) < 100:
        raise SystemExit(f"the search would find only {len(rows)} sections")
    (site / "search-index.js").write_text("window.conchIndex = " + json.dumps(rows, ensure_ascii=False) + ";\n")


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        for name in ("id", "name"):
            if attributes.get(name) and (name == "id" or tag == "a"):
                self.anchors.add(attributes[name])
        for name in ("href", "src", "srcset", "poster", "data", "action"):
            value = attributes.get(name)
            if value:
                (self.links if tag in ("a", "area") else self.loads).append(value)


def check(site):
    site = pathlib.Path(site).resolve()
    pages, problems, checked, outside = {}, [], 0, set()
    for file in sorted(site.rglob("*.html")):
        pages[file] = Links()
        pages[file].feed(file.read_text())
    if len(pages) < 50:
        problems.append(f"only {len(pages)} pages")
    for file, page in pages.items():
        name = file.relative_to(site)
        for url in page.links + page.loads:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme in ("data", "javascript", "mailto"):
                continue
            if parts.scheme or parts.netloc:
                outside.add(url)
                if url in page.loads:
                    problems.append(f"{name} loads {url}")
                continue
            checked += 1
            target = (site / parts.path.lstrip("/") if parts.path.startswith("/") else file.parent / urllib.parse.unquote(parts.path)).resolve()
            if not parts.path:
                target = file
            if target.is_dir():
                target = target / "index.html"
            if not target.is_file():
                problems.append(f"{name} links to {url}, which is not there")
            elif parts.fragment and target in pages:
                # Doxygen names this one also where all classes inside are private.
                if urllib.parse.unquote(parts.fragment) not in pages[target].anchors and parts.fragment != "nested-classes":
                    problems.append(f"{name} links to {url}, and that page has no such anchor")
    for file in sorted(site.rglob("*.css")):
        for url in re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", file.read_text(errors="replace")):
            problems.append(f"{file.relative_to(site)} loads {url}")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(pages)} pages, {checked} links, {len(outside)} links to other sites (not followed), {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "stage":
        Stage(sys.argv[2], sys.argv[3]).run()
    elif len(sys.argv) == 3 and sys.argv[1] == "index":
        index(sys.argv[2])
    elif len(sys.argv) == 3 and sys.argv[1] == "check":
        sys.exit(check(sys.argv[2]))
    else:
        sys.exit(__doc__)
