"""LDP-SGD of Han, Liang, Wang and Zhang (2021), run from a checkout of liangzp/LDP-Bandit.

    python han2021.py CHECKOUT '{"people": 100000, "epsilon": 1, "link": "logistic", "seed": 0}'

prints {"regret": ..., "seconds": ...}. Ten unit vectors a round in two dimensions; the linear
rewards of their environment have no noise.
"""

import json
import sys
import time
from pathlib import Path


def main() -> None:
    """Run once, as their `instances/` do."""
    asked = json.loads(sys.argv[2])
    sys.path.insert(0, str(Path(sys.argv[1], "Scheme1").resolve()))
    import utils

    params = utils.wrap_params(
        name="LDP-SGD",
        mechanism="SGD",
        server="GSGD",
        worker="A",
        env="GaussianLinear",
        reward={"linear": "normal", "logistic": "logistic"}[asked["link"]],
        profiler="Profiler",
        dimension=2,
        n_action=10,
        T=asked["people"],
        eps=asked["epsilon"],
        random_seed=asked["seed"],
    )
    start = time.perf_counter()
    worker = utils.settings_dict["worker"]["A"](params)
    worker.run()
    seconds = time.perf_counter() - start
    regret = float(worker.profiler.df["cum_regrets"].iloc[-1])
    print(json.dumps({"regret": regret, "seconds": seconds}))


if __name__ == "__main__":
    main()
