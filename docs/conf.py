"""Settings of the site: `make site` builds these pages with warnings as errors, and needs nothing from a network."""

import sys
from pathlib import Path

import otspec

sys.path.insert(0, str(Path(__file__).with_name("_extensions")))

project = "otspec"
author = "The otspec authors"
version = release = otspec.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "citations",
    "claims_page",
    "docstrings",
    "statements",
    "names",
    "outside",
    "sources",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # types such as (n,) in a docstring, where several classes have an n

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # a cell may have to compile solvers first
nb_merge_streams = True

autodoc_typehints = "none"  # the docstrings say what an argument is
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
default_role = "py:obj"
add_module_names = False
python_display_short_literal_types = True

mathjax_path = "mathjax/tex-chtml.js"  # of sphinx-mathjax-offline; the address of a network is Sphinx's own default

html_theme = "furo"
html_title = "otspec"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#0b5c73", "color-brand-content": "#0b5c73"},
    "dark_css_variables": {"color-brand-primary": "#7cc7dc", "color-brand-content": "#7cc7dc"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ |In \[\d*\]: "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
