# SPDX-License-Identifier: GPL-2.0
"""Tests that use a browser as a person does."""

import sys
import time

from chromium import BrowserError, Chromium, PATIENCE

tests = []


class Failure(Exception):
    """A test has failed."""


def test(function):
    tests.append(function)
    return function


def check(condition, why):
    if not condition:
        raise Failure(why)


def equal(found, expected, what=""):
    check(found == expected, f"{what} {found!r} is not {expected!r}".strip())


def await_true(browser, expression, what):
    """Waits until an expression is true in the page: a step in the history, for one, is made by another process."""
    deadline = time.monotonic() + PATIENCE
    while not browser.run(expression):
        check(time.monotonic() < deadline, f"{what}: not within {PATIENCE} s")
        time.sleep(0.05)


def run_test(function, browser, out):
    name = function.__name__.replace("_", " ")
    try:
        function(browser)
    except (Failure, BrowserError) as error:
        why = " ".join(str(error).split())[:500]
        print(f"not ok {name}: {why}", flush=True)
        browser.screenshot(out / f"failed-{function.__name__}.png")
        return False
    print(f"ok {name}", flush=True)
    return True


def run_tests(out):
    """Runs the tests whose names contain a word of the command line, or all, and exits. `out`: of screenshots."""
    out.mkdir(parents=True, exist_ok=True)
    chosen = [function for function in tests
              if not sys.argv[1:] or any(word in function.__name__ for word in sys.argv[1:])]
    browser = Chromium()
    try:
        results = [run_test(function, browser, out) for function in chosen]
    finally:
        browser.close()
    sys.exit(0 if all(results) else 1)
