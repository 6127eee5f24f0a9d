"""Experiments beyond the papers: modules with the names of those in `report.papers`, and the grid's section."""

from . import compare, completion

ALL = (completion, compare)
