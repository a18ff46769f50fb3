"""The quick-starts as notebooks, made from their pages, which stay the only source."""

import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

START = Path(__file__).parent / "start"
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```\n", re.DOTALL | re.MULTILINE)
_EXPORT = re.compile(r"^export (\S+)\n", re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_FIRST = """\
Run this notebook in the root of a clone of `discreet`, with Jupyter in the same environment \
(`pip install jupyterlab`). Cells write files into that folder.
"""


def notebook(page: str) -> nbformat.NotebookNode:
    """A quick-start as a notebook, without outputs.

    Files that readers save become cells with `%%writefile`, shell commands `%%bash`, exported
    variables `%env`; Python stays as it is. Expected outputs and the targets of links go.

    Args:
        page: the text of a page of docs/start.
    """
    cells, end, page = [], 0, page.replace("**1. ", f"{_FIRST}\n**1. ", 1)
    for block in _BLOCK.finditer(page):
        cells += _prose(page[end : block.start()])
        cells += _code(block["language"], block["code"])
        end = block.end()
    cells += _prose(page[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def write_notebooks() -> None:
    """Write one beside each page, for the site."""
    for page in START.glob("*.md"):
        nbformat.write(notebook(page.read_text(encoding="utf-8")), page.with_suffix(".ipynb"))


def _prose(text: str) -> list[nbformat.NotebookNode]:
    return [new_markdown_cell(_LINK.sub(r"\1", text.strip()))] if text.strip() else []


def _code(language: str, code: str) -> list[nbformat.NotebookNode]:
    """The cells of a block.

    Raises:
        ValueError: a block of another language without the name of its file in the first line.
    """
    file = re.match(r"# (\w+\.\w+)", code)
    if language == "text":
        texts = []
    elif language == "bash":
        texts = [f"%env {variable}" for variable in _EXPORT.findall(code)]
        texts.append("%%bash -e\n" + _EXPORT.sub("", code))
    elif file:
        texts = [f"%%writefile {file[1]}\n{code}"]
    elif language == "python":
        texts = [code]
    else:
        raise ValueError(f"a block has no file name in its first line: {code}")
    return [new_code_cell(text.strip()) for text in texts]
