"""Figures with their spread and goal; as a table and as JSON."""

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Goal:
    """What a figure should be: `Goal(">=", 0.92)`."""
    relation: str
    value: float

    def holds(self, figure):
        match self.relation:
            case ">=":
                return figure >= self.value
            case "<=":
                return figure <= self.value
            case "<":
                return figure < self.value
        raise ValueError(f'"{self.relation}": a goal is >=, <= or <')

    def __str__(self):
        return f"{self.relation} {self.value:g}"


@dataclass
class Figure:
    """One quantity in several runs. The median is held against the goal, unless `every` run must meet it."""
    name: str
    figure: str
    unit: str
    goal: Goal | None = None
    every: bool = False
    values: list[float] = field(default_factory=list)

    def meets(self):
        """None without a goal or without runs."""
        if self.goal is None or not self.values:
            return None
        if self.every:
            return all(self.goal.holds(value) for value in self.values)
        return self.goal.holds(statistics.median(self.values))

    def as_json(self):
        spread = dict.fromkeys(("min", "median", "max"))
        if self.values:
            spread = {"min": min(self.values), "median": statistics.median(self.values), "max": max(self.values)}
        return {"name": self.name, "figure": self.figure, "unit": self.unit, "n": len(self.values), **spread,
                "goal": str(self.goal) if self.goal else None, "meets": self.meets()}


def table(figures):
    """The figures as text for a terminal."""
    rows = [["benchmark", "figure", "unit", "n", "min", "median", "max", "goal", "met"]]
    for figure in figures:
        row = figure.as_json()
        numbers = ["-" if row[key] is None else f"{row[key]:.3f}" for key in ("min", "median", "max")]
        met = {None: "", True: "yes", False: "NO"}[row["meets"]]
        rows.append([row["name"], row["figure"], row["unit"], str(row["n"]), *numbers, row["goal"] or "", met])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) if i < 3 or i > 6 else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
