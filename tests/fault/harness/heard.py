"""Who consumed what and when, and when who died: of what came again, whether it might.

A consumer saves how far it is every second, the original's every five. So a message may come again that was consumed
within the last seconds before its consumer died, or before its queue went to another member.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from .rows import Row

UNSAVED_S: Final = 5.0


class Heard:
    """By name of the message: when it was consumed, and by which consumer. All times are of one clock."""

    def __init__(self, died: Mapping[int, float]) -> None:
        self.times: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        self.died = died

    def judge(self, row: Row) -> None:
        """Each time that a message came again, it need not have been saved yet."""
        of_deaths: Counter[int] = Counter()
        moved, longest_s = 0, 0.0
        for name, times in self.times.items():
            for (first_s, who), (again_s, _) in pairwise(sorted(times)):
                died_s = self.died.get(who, again_s)
                if died_s < again_s:
                    of_deaths[who] += 1
                else:
                    moved += 1
                unsaved_s = min(died_s, again_s) - first_s
                longest_s = max(longest_s, unsaved_s)
                if unsaved_s > UNSAVED_S:
                    row.violations.append(f"{name} came again, though {who} had consumed it {unsaved_s:.1f} s before")
        row.add(again_after_deaths=of_deaths.total(), again_as_queues_moved=moved)
        row.numbers["most_again_after_a_death"] = max(of_deaths.values(), default=0)
        row.numbers["longest_unsaved_s"] = round(longest_s, 2)
