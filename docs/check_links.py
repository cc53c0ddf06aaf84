"""Check the built site without a network.

``python docs/check_links.py HTML_FOLDER`` checks that every link inside the site leads
to a page and an anchor that exist, that every image is there, and that every public
name of the library has a page, which tells its arguments. Links to other sites are
only counted.
"""

import importlib
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import fairpriv_sklearn

# A constructor of which no argument is told
HIDDEN = re.compile(r">class</span>(?:(?!</dt>).)*>args<(?:(?!</dt>).)*>kwargs<", re.S)


class Page(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = {"", "top"}, set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs.get("id"), attrs.get("name")}
        for name in ("href", "src", "data"):
            if attrs.get(name) and tag != "meta":
                self.links.add(attrs[name])


def broken_links(site):
    """Return complaints about links inside the site, and the number of other links."""
    files = (
        path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts
    )
    pages = {path: Page(path) for path in files}
    # Figures of examples that conf.py does not run without their data
    forgiven = () if "FAIRPRIV_SKLEARN_DATA" in os.environ else ("sphx_glr_plot",)
    complaints, n_outside = [], 0
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                n_outside += 1
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            if target.name.startswith(forgiven):
                continue
            if not target.is_file():
                complaints.append(f"{path.relative_to(site)}: no file {link}")
            elif target in pages and unquote(parts.fragment) not in (
                pages[target].anchors
            ):
                complaints.append(f"{path.relative_to(site)}: no anchor {link}")
    return complaints, n_outside


def undocumented_names(site):
    """Return complaints about public names without a page."""
    complaints = []
    for module in fairpriv_sklearn.__all__:
        name = f"fairpriv_sklearn.{module}"
        public = vars(importlib.import_module(name))
        for item in public.get("__all__", ()):
            page = site / "generated" / f"{name}.{item}.html"
            if not page.is_file():
                complaints.append(f"api.rst: {name}.{item} is missing")
            elif HIDDEN.search(page.read_text(encoding="utf-8")):
                complaints.append(f"{page.name}: a signature is (*args, **kwargs)")
    return complaints


def main(folder):
    site = Path(folder).resolve()
    if not (site / "index.html").is_file():
        print(f"{folder} holds no index.html: build the documentation first.")
        return 1
    complaints, n_outside = broken_links(site)
    complaints += undocumented_names(site)
    print("\n".join(complaints))
    print(
        f"{len(complaints)} complaints; {n_outside} links to other sites not checked."
    )
    return 1 if complaints else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
