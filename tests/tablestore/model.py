"""A table as plain dictionaries, and random requests on it with what they should come to.

Owns: the documented meaning of versions, changes, conditions, selections and filters, written down a second time. A row is
`{column: {version: value}}`; no row is None. Must not: know the server or its texts.
"""

from tablestore import ComparatorType, CompositeColumnCondition, LogicalOperator, SingleColumnCondition

VERSIONS_MAX = 3
KEY = ("p", "q")
#: Few names, so that requests meet, and many, so that rows are wide.
COLUMNS = ["a", "b", "c", "n"] + [f"w{number:03}" for number in range(60)]
COMPARES = {
    ComparatorType.EQUAL: lambda one, other: one == other,
    ComparatorType.NOT_EQUAL: lambda one, other: one != other,
    ComparatorType.GREATER_THAN: lambda one, other: one > other,
    ComparatorType.GREATER_EQUAL: lambda one, other: one >= other,
    ComparatorType.LESS_THAN: lambda one, other: one < other,
    ComparatorType.LESS_EQUAL: lambda one, other: one <= other,
}


def shortened(row):
    """A row without the versions that are too many, for good: what newer versions hid is not shown again."""
    newest = {name: sorted(versions, reverse=True)[:VERSIONS_MAX] for name, versions in row.items()}
    return {name: {at: row[name][at] for at in kept} for name, kept in newest.items() if kept}


def cells(row):
    """(column, value, version) by name, newest versions first."""
    return [(name, row[name][at], at) for name in sorted(row) for at in sorted(row[name], reverse=True)]


class Requests:
    """Makes random parts of requests; each comes with a function that says what it means."""

    def __init__(self, dice, base):
        self.dice = dice
        #: Versions are a few milliseconds from here on.
        self.base = base

    def key(self):
        return self.dice.choice(["", "a", "b", "cc"]), self.dice.randrange(-2, 4)

    def version(self):
        return self.base + self.dice.randrange(12)

    def value(self):
        return self.dice.choice([1, 2, -5, "x", "y" * self.dice.choice([1, 50, 900]), 2.5, True, bytearray(b"\x01\xff")])

    def column(self):
        return self.dice.choice(COLUMNS[:4] if self.dice.random() < 0.7 else COLUMNS)

    def put(self):
        count = self.dice.choice([0, 1, 3, 6, 60])
        new = [(self.column(), self.value(), self.version()) for _ in range(count)]

        def after(_row):
            row = {}
            for name, value, at in new:
                row.setdefault(name, {})[at] = value
            return shortened(row)

        return new, after

    def update(self):
        changes = [
            ("PUT", [(self.column(), self.value(), self.version()) for _ in range(self.dice.randrange(5))]),
            ("DELETE", [(self.column(), None, self.version()) for _ in range(self.dice.randrange(3))]),
            ("DELETE_ALL", [self.column() for _ in range(self.dice.randrange(2))]),
        ]
        self.dice.shuffle(changes)
        changes = {kind: parts for kind, parts in changes if parts} or {"DELETE_ALL": ["a"]}

        def after(before):
            if before is None and "PUT" not in changes:
                return None
            row = {name: dict(versions) for name, versions in (before or {}).items()}
            for kind, parts in changes.items():
                for part in parts:
                    if kind == "PUT":
                        row.setdefault(part[0], {})[part[2]] = part[1]
                    elif kind == "DELETE":
                        row.get(part[0], {}).pop(part[2], None)
                    else:
                        row.pop(part, None)
            return shortened(row)

        return changes, after

    def filter(self, depth=0):
        if depth > 2 or self.dice.random() < 0.65:
            return self.relation()
        operator = self.dice.choice([LogicalOperator.AND, LogicalOperator.OR, LogicalOperator.NOT])
        count = 1 if operator == LogicalOperator.NOT else self.dice.choice([2, 3])
        inner = [self.filter(depth + 1) for _ in range(count)]
        condition = CompositeColumnCondition(operator)
        for one, _ in inner:
            condition.add_sub_condition(one)
        if operator == LogicalOperator.NOT:
            return condition, lambda key, row: not inner[0][1](key, row)
        whole = all if operator == LogicalOperator.AND else any
        return condition, lambda key, row: whole(passes(key, row) for _, passes in inner)

    def relation(self):
        name = self.dice.choice(["a", "b", "c", "n", "p", "q", "missing"])
        wanted = self.dice.choice([1, 2, "x", 2.5, True, "a", -5])
        comparator = self.dice.choice(list(COMPARES))
        if_missing, latest = self.dice.random() < 0.5, self.dice.random() < 0.5

        def holds(value):
            if type(value) is not type(wanted):
                return comparator == ComparatorType.NOT_EQUAL
            return COMPARES[comparator](value, wanted)

        def passes(key, seen):
            found = [dict(zip(KEY, key))[name]] if name in KEY else [value for at, value, _ in seen if at == name]
            if not found:
                return if_missing
            return any(holds(value) for value in (found[:1] if latest else found))

        return SingleColumnCondition(name, wanted, comparator, if_missing, latest), passes

    def selection(self):
        """Arguments of a read, and what it gives of a row: its cells or None."""
        pick = self.dice.choice
        most = pick([1, 2, 3, 5, None])
        times = None
        if most is None or self.dice.random() < 0.2:
            times = (self.version(), self.version())
            if most is None and self.dice.random() < 0.3:
                times = self.version()
        low, high = times if isinstance(times, tuple) else (times, times and times + 1)
        columns = pick([None, None, None, ["a"], ["a", "n"], ["missing"], ["p", "a"], self.dice.sample(COLUMNS, 4)])
        start, end = pick([None, None, "b", "w010"]), pick([None, None, "c", "w020"])
        filter = self.filter() if self.dice.random() < 0.4 else None

        def seen(key, row):
            if row is None:
                return None
            found = []
            for name in sorted(row):
                if (columns and name not in columns) or (start and name < start) or (end and name >= end):
                    continue
                versions = [at for at in sorted(row[name], reverse=True) if low is None or low <= at < high]
                found += [(name, row[name][at], at) for at in versions[:most]]
            named_key = columns and set(columns) & set(KEY)
            if not found and not named_key and (row or columns):
                return None
            return found if filter is None or filter[1](key, found) else None

        arguments = {
            "max_version": most, "time_range": times, "columns_to_get": columns, "start_column": start, "end_column": end,
            "column_filter": filter and filter[0],
        }
        return arguments, seen
