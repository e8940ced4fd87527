"""A program that reads everything and answers nothing."""

import sys

sys.stdin.read()
