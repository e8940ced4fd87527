"""Transports are tested on both event loops: asyncio's own and uvloop."""

from __future__ import annotations

import asyncio
import warnings

import pytest
import uvloop


class EndingLoop(uvloop.Loop):
    """Ends with a test that fails or takes too long: uvloop alone would wait for ever, and the whole run with it."""

    late = None

    def call_exception_handler(self, context):
        """Stop where the time of a test is over: uvloop only reports what the signal's handler raises."""
        if isinstance(context.get("exception"), pytest.fail.Exception):
            self.late = context["exception"]
            self.stop()
        else:
            super().call_exception_handler(context)

    def run_until_complete(self, future):
        """Raise what has stopped it."""
        try:
            return super().run_until_complete(future)
        except RuntimeError:
            late, self.late = self.late, None
            if late is None:
                raise
            raise late from None

    def close(self):
        """Close, and raise what is warned of afterwards: raised meanwhile, it would keep uvloop from ending."""
        with warnings.catch_warnings(record=True) as left:
            warnings.simplefilter("always")
            super().close()
        for each in left:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


LOOPS = {"asyncio": asyncio.SelectorEventLoop, "uvloop": EndingLoop}


def pytest_asyncio_loop_factories(config, item):
    """Run every async test of this folder once on each loop."""
    return LOOPS
