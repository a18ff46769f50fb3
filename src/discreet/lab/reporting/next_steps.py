"""What to do next, after a run, a plan, an audit or a turn of a search: what stands on a page right
below its verdict, for a reader who has to decide.

Steps follow from the verdict; none of them looks at data again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from discreet.lab.planning.forecast import Forecast
from discreet.lab.reporting.plan_words import Recommendation, people_text, percent, takes_text
from discreet.lab.reporting.search_view import SearchView
from discreet.lab.reporting.summary import Line, Rival, Summary
from discreet.lab.studies import Study
from discreet.people.actions import arm_count
from discreet.records import Finding

_FEW = 4  # replicates, below which intervals are mostly wide


@dataclass(frozen=True)
class Step:
    """One thing to do.

    Attributes:
        text: what and why.
        command: that does it; "" where it takes none.
    """

    text: str
    command: str = ""


def rival_of(study: Study, summary: Summary) -> Rival:
    """What the private learners must beat to be worth having."""
    if any("rule" in line.over for line in summary.private):
        return "rule"
    return "uniform" if arm_count(study.problem.space) is None else "fixed"


def after_run(study: Study, summary: Summary, finished: int) -> list[Step]:
    """What to do after a run of which so many simulations were finished."""
    return list(_after_run(study, summary, finished))


def _after_run(study: Study, summary: Summary, finished: int) -> Iterator[Step]:
    file = str(study.path or "STUDY.toml")
    if finished < len(study.settings) * study.replicates:
        yield Step("Finish the run: give the same command again, with --resume at its end.")
    if not summary.private:
        yield Step(
            "Add a private learner to the study file, or let a plan choose one and its epsilon.",
            _command("plan", file),
        )
        return
    rival = rival_of(study, summary)
    signs = [(line, line.over[rival].sign) for line in summary.private if rival in line.over]
    better = [line for line, sign in signs if sign == 1]
    if better:
        yield Step(
            f"Look first at {_named(_smallest(better))}: of those that clearly did better, with "
            "the smallest epsilon. A plan says how sure that choice is, what it costs people, how "
            "many people it takes and what it means for one person.",
            _command("plan", file),
        )
    elif signs and all(sign == -1 for _, sign in signs):
        yield Step(
            "Deploy none of these: they did worse than a choice that needs nobody's data. A plan "
            "says whether more people or a larger epsilon would help.",
            _command("plan", file),
        )
    else:
        yield Step(
            "Deploy none of these yet: nothing shows that they are worth having. A plan says how "
            "many people or which epsilon it would take.",
            _command("plan", file),
        )
    fewest = min(line.replicates for line in summary.private)
    if fewest < _FEW and study.replicates < _FEW:
        yield Step(
            f"Repeat the run more often than {'once' if fewest == 1 else f'{fewest} times'}, so "
            "that chance can be told from gain.",
            _command("run", file, "--replicates", "8", "--report", "report.html"),
        )
    yield Step(
        "Have the promises attacked, and give that page and the certificates below to whoever "
        "answers for privacy.",
        _command("audit", file, "--report", "audit.html"),
    )
    if summary.simulated_noise:
        yield Step(
            "Before people depend on it, draw noise from a secure source (SecureNoise), and check "
            "that each certificate then names it."
        )


def after_plan(forecast: Forecast, recommended: Recommendation) -> list[Step]:
    """What to do after a plan."""
    file = str(forecast.path or "STUDY.toml")
    advice = forecast.advice()
    if advice.verdict.open:
        return [Step(f"Decide nothing yet. {takes_text(forecast)}", _again(forecast, file))]
    if recommended.learner is None:
        return [
            Step(recommended.sentences[1]),
            Step("Until then no data about people need be collected for it."),
        ]
    if recommended.epsilon is None:
        until = people_text(forecast.people_for(advice.best, 1.0 - advice.lose_at_most))
        return [
            Step(
                f"Deploy nothing yet. To lose at most {percent(advice.lose_at_most)} at epsilon = "
                f"{advice.best:g} takes {until}: find them, or plan again with more people."
            ),
            Step(
                "Or decide that a larger loss is worth the protection.",
                _command("plan", file, "--lose-at-most", "50%"),
            ),
            Step(
                "Or try larger epsilons, and read below what they mean for one person.",
                _command("plan", file, "--epsilons", "4,8,16"),
            ),
        ]
    return [
        Step(
            "Let the person who answers for privacy agree to epsilon = "
            f"{recommended.epsilon:g}: what it means for one person and the draft of the "
            "certificate stand below."
        ),
        Step(
            f"Write {recommended.learner} with epsilon = {recommended.epsilon:g} into the study "
            "file, and run it with as many people as you expect.",
            _command("run", file, "--report", "report.html"),
        ),
        Step(
            "Have its promise attacked before people depend on it.",
            _command("audit", file, "--report", "audit.html"),
        ),
    ]


def _again(forecast: Forecast, file: str) -> str:
    """The plan that would probably tell; "" where none would."""
    found, size = forecast.advice().verdict, forecast.problem.size
    if size is not None and forecast.wished > size:
        return _command("plan", file, "--people", str(size))
    if found.replicates is None:
        return ""
    return _command("plan", file, "--replicates", str(found.replicates), "--seconds", "0")


def after_audit(name: str, findings: Sequence[Finding]) -> list[Step]:
    """What to do after an audit of what was asked for by this name."""
    return list(_after_audit(name, findings))


def _after_audit(name: str, findings: Sequence[Finding]) -> Iterator[Step]:
    weak = [each for each in findings if each.verdict == "too weak to tell"]
    missing = [each for each in findings if each.verdict == "not audited"]
    if any(each.failed for each in findings if each not in weak and each not in missing):
        yield Step(
            "Stop whatever relies on these promises, and publish nothing more under them, until "
            "the reason is known. What breaks each stands below, under “The worst neighbours”."
        )
        yield Step(
            "Once the reason is mended, repeat the audit.",
            _command("audit", name, "--report", "audit.html"),
        )
    if weak:
        most = max(finding.trials for finding in weak)
        yield Step(
            "Try again, and harder, what trials were too weak to tell.",
            _command("audit", name, "--trials", str(10 * max(1, most))),
        )
    if missing:
        yield Step(
            "Repeat the audit where what was left out can be audited: the reasons stand below.",
            _command("audit", name, "--report", "audit.html"),
        )
    if not any(each.failed for each in findings):
        yield Step(
            "Read what could not be attacked: it has to be looked after in other ways, by whoever "
            "runs the study."
        )
        yield Step("Keep this page with the certificate of each promise.")
        yield Step(
            "Repeat the audit whenever the study or discreet changes.",
            _command("audit", name, "--report", "audit.html"),
        )


def after_search(view: SearchView) -> list[Step]:
    """What to do after a turn of a search."""
    waiting, best = view.turn.waiting, view.turn.best
    if not view.turn.done:
        questions = "the question" if waiting == 1 else f"the {waiting} questions"
        first = (
            f"Send {questions} to the curator; when the answers have come, give the same command "
            "again."
            if waiting
            else "Give the same command again: it asks the next questions."
        )
        return [Step(first), Step("Decide nothing on the best answer so far: it may be luck.")]
    if best is None:
        return [Step("Ask the curator whether any row can be measured: no outcome is known.")]
    return [
        Step(
            f"Give row {best.row} to the curator, who alone knows which one it is, and agree "
            "with them on what happens there."
        ),
        Step(
            "Tell the curator that the search is over, so that the key can be put away: more "
            "questions, or another release of this table, cost more privacy."
        ),
    ]


def _smallest(lines: Sequence[Line]) -> Line:
    """The line that promises most; of several, the one that stands first."""
    return min(lines, key=lambda line: line.epsilon or 0.0)


def _named(line: Line) -> str:
    return f"{line.family} at epsilon = {line.epsilon:g}"


def _command(*parts: str) -> str:
    return f"discreet {shlex.join(parts)}"
