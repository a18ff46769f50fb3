"""LDP-LinUCB of Zheng et al. (2020) on films, run from a checkout of MIFA-Lab/LDPbandit2020.

    python zheng2020.py CHECKOUT '{"people": 50000, "epsilon": 10, "ratings": "ua.base", "seed": 0}'

prints {"regret": ..., "seconds": ...}. `ratings` is a file in MovieLens' form (user, film, rating);
`films.py` beside this folder writes one from a table that installs with pip.
"""

import json
import random
import sys
import time


def main() -> None:
    """Run once, as their `train_eval.py` does."""
    asked = json.loads(sys.argv[2])
    sys.path.insert(0, sys.argv[1])
    import numpy as np
    from src.dataset import MovieLensEnv
    from src.linucb import LinUCB

    films = rank = 20
    env = MovieLensEnv(asked["ratings"], films, rank)
    people = asked["people"]
    np.random.seed(asked["seed"])  # noqa: NPY002 (their generator)
    random.seed(asked["seed"])
    learner = LinUCB(rank, epsilon=asked["epsilon"], delta=0.1, alpha=0.1, T=people)
    start = time.perf_counter()
    for step in range(people):
        candidates, rewards = env.observation(), env.current_rewards()
        learner.update_status(step + 1)
        gram, products, _ = learner.construct(candidates, rewards)
        learner.server_update(gram, products)
    seconds = time.perf_counter() - start
    print(json.dumps({"regret": float(learner.regret), "seconds": seconds}))


if __name__ == "__main__":
    main()
