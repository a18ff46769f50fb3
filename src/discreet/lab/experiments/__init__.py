"""One engine for every experiment, and the studies that stand on it."""

from discreet.lab.experiments.durations import expected_seconds, grown
from discreet.lab.experiments.engine import Done, Seed, frame_of, grid, run_trials
from discreet.lab.experiments.serving import (
    Arrival,
    Source,
    feed_source,
    people_of,
    run_learner,
    run_with_sources,
)
from discreet.lab.experiments.simulation import (
    BEST_FIXED,
    HIGHEST,
    ORACLE,
    REFERENCES,
    UNIFORM,
    Appraisal,
    Outcome,
    Setting,
    check_setting,
    learner_of,
    simulate,
    simulate_all,
)

__all__ = [
    "BEST_FIXED",
    "HIGHEST",
    "ORACLE",
    "REFERENCES",
    "UNIFORM",
    "Appraisal",
    "Arrival",
    "Done",
    "Outcome",
    "Seed",
    "Setting",
    "Source",
    "check_setting",
    "expected_seconds",
    "feed_source",
    "frame_of",
    "grid",
    "grown",
    "learner_of",
    "people_of",
    "run_learner",
    "run_trials",
    "run_with_sources",
    "simulate",
    "simulate_all",
]
