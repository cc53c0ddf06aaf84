"""Sphinx configuration."""

import inspect
import os
import re
import warnings

from sphinx.util.inspect import stringify_signature

import fairpriv_sklearn

os.environ.setdefault("MPLBACKEND", "Agg")
# Warnings in the gallery: what they say, and not where the pages were built.
warnings.formatwarning = lambda message, category, *_: (
    f"{category.__name__}: {message}\n"
)

project = "fairpriv_sklearn"
author = "the fairpriv_sklearn developers"
copyright = f"2026, {author}"
version = release = fairpriv_sklearn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # brings MathJax along: the pages need no network
    "sphinx_copybutton",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "auto_examples/**/*.py"]
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_title = "fairpriv_sklearn"
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": False,
}
# Pages without pages below them have nothing to show beside them.
html_sidebars = {
    page: []
    for page in (
        "index",
        "start",
        "which_method",
        "tasks",
        "coming_from_fairlearn",
        "coming_from_diffprivlib",
        "epsilon_in_plain_words",
        "not_there",
        "errata",
        "vocabulary",
        "glossary",
        "contributing",
        "where_it_stopped",
    )
}
suppress_warnings = ["config.cache"]
# A link to a name that is not there is an error; names of others have no pages here.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(sklearn|matplotlib)\..*")]
# What is copied is what is typed: no prompts, no outputs.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

autosummary_generate = True
# Expanded array types would fill half a page; the docstrings give shapes and dtypes.
autodoc_typehints = "none"
default_role = "literal"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("fairpriv_sklearn",),
    # Long studies are run by hand, and their outputs are committed beside them.
    "ignore_pattern": r"benchmarks|erratum",
    "filename_pattern": r"/plot_[^/]*$",
    "remove_config_comments": True,
    # What a drawing function returns is no output.
    "capture_repr": ("_repr_html_",),
    "show_memory": False,
    "min_reported_time": 1,
    "abort_on_example_error": True,
    "parallel": 2,
    "download_all_examples": False,
    "show_signature": False,
}

# Snippets on real data are skipped, by `:skipif: no_data`, where there are none.
doctest_global_setup = """
import os

import numpy as np

no_data = "FAIRPRIV_SKLEARN_DATA" not in os.environ
"""


def join_continued_lines(app, what, name, obj, options, lines):
    """Undo the backslashes that raw docstrings keep at the ends of long lines."""
    for i in reversed(range(len(lines) - 1)):
        # Two end a line of a formula.
        if lines[i].endswith("\\") and not lines[i].endswith(r"\\"):
            lines[i] = lines[i][:-1] + lines.pop(i + 1).lstrip()


def drop_foreign_labels(app, what, name, obj, options, lines):
    """Keep the words of references into scikit-learn's documentation, not the link."""
    if str(getattr(obj, "__module__", "")).startswith("sklearn."):
        lines[:] = [re.sub(r":ref:`([^`<]+?)( <.*?>)?`", r"\1", line) for line in lines]


def tell_arguments(app, what, name, obj, options, signature, returns):
    """Those of the constructor, not of `__new__`, which refuses old names."""
    if what == "class" and signature == "(*args, **kwargs)":
        found = inspect.signature(obj)
        signature = stringify_signature(found, show_annotation=False)
        return signature, returns
    return None


def setup(app):
    app.connect("autodoc-process-signature", tell_arguments)
    # Before numpydoc reads the sections
    for change in (join_continued_lines, drop_foreign_labels):
        app.connect("autodoc-process-docstring", change, priority=100)
