"""Docstrings of the three common styles."""

from __future__ import annotations

import subprocess
import sys

import pytest

from antiphon.server.functions.docstrings import Docs, read_docstring

GOOGLE = """Describe a product.

    Longer text.

    Args:
        product: Its name,
            as in the shop.
        count (int): How many.

    Returns:
        The description.

    Raises:
        ValueError: Never mind.

    Example:
        >>> describe("sweater")
    """

NUMPY = """Describe a product.

    Parameters
    ----------
    product : str
        Its name,
        as in the shop.
    count
        How many.

    Returns
    -------
    str
        The description.
    """

SPHINX = """Describe a product.

    :param str product: Its name,
        as in the shop.
    :param count: How many.
    :type count: int
    :returns: The description.
    :raises ValueError: Never mind.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_arguments_are_found_in_every_style(text):
    """Each argument's words, on one line."""
    assert read_docstring(text).arguments == {"product": "Its name, as in the shop.", "count": "How many."}


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_the_description_keeps_what_a_model_can_use(text):
    """Results stay; arguments and exceptions, which are elsewhere or not for models, go."""
    description = read_docstring(text).description or ""
    assert description.startswith("Describe a product.")
    assert "The description." in description
    assert "product:" not in description
    assert "How many" not in description
    assert "ValueError" not in description


def test_examples_stay_as_they_are_written():
    """A section behind the arguments is kept with its layout."""
    assert (read_docstring(GOOGLE).description or "").endswith('Example:\n    >>> describe("sweater")')


def test_text_without_arguments_is_the_description():
    """Nothing is parsed, and only the indentation goes."""
    assert read_docstring("First.\n\n    Returns:\n        x").description == "First.\n\nReturns:\n    x"


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_text_is_no_description(text):
    """An empty docstring says nothing."""
    assert read_docstring(text) == Docs(description=None, arguments={})


def test_only_arguments_is_no_description():
    """A docstring may hold nothing else."""
    assert read_docstring("\n    Args:\n        x: The x.\n    ") == Docs(description=None, arguments={"x": "The x."})


def test_the_parser_loads_only_when_it_is_needed():
    """Importing and reading plain text does not cost its 30 ms."""
    program = (
        "import sys; from antiphon.server.functions.docstrings import read_docstring; read_docstring('Plain.');"
        "print('docstring_parser' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
