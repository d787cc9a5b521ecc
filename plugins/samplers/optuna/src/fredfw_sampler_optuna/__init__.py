"""The sampler ``optuna``."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import define, field, frozen

from fredfw import Sampler, Search, SearchSpace, Told, Trial, units
from fredfw.errors import InputError

if TYPE_CHECKING:
    import optuna

fredfw_contract = 2

_REFUSED = 100  # how many suggestions in a row may be outside of the space


@frozen
class OptunaSampler(Sampler):
    """Asks Optuna, which learns from the results so far, for the next points."""

    name: ClassVar[str] = "optuna"

    trials: int = units.count(100, help="points to run")
    seed: int = units.count(0, minimum=0, help="of the random numbers: the same seed, the same points")
    algorithm: str = units.choice(
        ("tpe", "nsgaii", "random"),
        help="tpe: tree-structured Parzen estimator; nsgaii: evolution, for several objectives; random",
    )
    batch: int = units.count(4, help="points that are asked for before their results are told")

    def start(self, space: SearchSpace) -> Search:
        # It takes a second to import, which no other sampler should cost.
        try:
            import optuna
        except ImportError as error:
            raise InputError(f"needs Optuna ({error})", key="sampler", accepted="pip install optuna") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        has = optuna.samplers
        samplers: dict[str, Any] = {"tpe": has.TPESampler, "nsgaii": has.NSGAIISampler, "random": has.RandomSampler}
        sampler = samplers[self.algorithm](seed=self.seed)
        study = optuna.create_study(sampler=sampler, directions=["minimize"] * space.objectives)
        return _Search(self, space, study, random.Random(self.seed))


@define
class _Search(Search):
    """One study of Optuna."""

    sampler: OptunaSampler
    space: SearchSpace
    study: optuna.Study
    random: random.Random
    asked: dict[int, optuna.Trial] = field(factory=dict)  # of the points that were asked for and not told yet
    known: set[int] = field(factory=set)  # points that were asked for

    def ask(self) -> Sequence[Trial]:
        wanted = min(self.sampler.trials, len(self.space)) - len(self.known)
        for _ in range(min(wanted, self.sampler.batch)):
            point, trial = self._next()
            self.asked[point] = trial
            self.known.add(point)
        return [Trial(point) for point in self.asked]

    def tell(self, told: Sequence[Told]) -> None:
        for one in told:
            trial = self.asked.pop(one.trial.point)
            if one.feasible and one.losses is not None:
                self.study.tell(trial, one.losses)
            else:
                self._refuse(trial)

    def _next(self) -> tuple[int, optuna.Trial]:
        for _ in range(_REFUSED):
            trial = self.study.ask()
            point = self.space.find(self._suggested(trial))
            if point is not None and point not in self.known:
                return point, trial
            self._refuse(trial)
        point = self.random.choice([one for one in range(len(self.space)) if one not in self.known])
        # A dimension that the point does not have has no part in it, whatever its value.
        chosen = [number or 0 for number in self.space.points[point]]
        self.study.enqueue_trial(dict(zip(self.space.names, chosen, strict=True)))
        trial = self.study.ask()
        self._suggested(trial)
        return point, trial

    def _suggested(self, trial: optuna.Trial) -> list[int]:
        """Return the number of the value that Optuna suggests in each dimension."""
        found = []
        for name, values in zip(self.space.names, self.space.values, strict=True):
            if all(isinstance(one, int | float) and not isinstance(one, bool) for one in values):
                found.append(trial.suggest_int(name, 0, len(values) - 1))
            else:
                found.append(int(trial.suggest_categorical(name, range(len(values)))))
        return found

    def _refuse(self, trial: optuna.Trial) -> None:
        from optuna.trial import TrialState

        self.study.tell(trial, state=TrialState.FAIL)
