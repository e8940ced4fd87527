"""A program that dies before it has said anything."""

import sys

print("no \x1b[31mdatabase", file=sys.stderr)
sys.exit(3)
