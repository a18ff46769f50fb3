"""Private-GLM of Sarmasarkar et al. (2026), from a checkout of their repository
Shuffle_joint_dp_generalized_linear_contextual_bandits.

    python sarmasarkar2026.py CHECKOUT '{"people": 10000, "epsilon": 4, "seed": 0}'

prints {"regret": ..., "seconds": ...}: logistic rewards, 20 candidates a round in the unit ball of
three dimensions, |theta| = 3.5, delta .02.
"""

import contextlib
import json
import sys
import time


def main() -> None:
    """Run once, as their notebooks do."""
    asked = json.loads(sys.argv[2])
    sys.path.insert(0, sys.argv[1])
    import numpy as np
    from environment import GLMBandit
    from glmbanditexp.algorithms.private_rs_glinucb import Private_RS_GLinUCB

    delta, failure = 0.02, 0.02
    config = {
        "seed": asked["seed"],
        "model": "Logistic",
        "theta_dim": 3,
        "num_arms": 20,
        "theta_norm": 3.5,
        "horizon_length": asked["people"],
        "full_norm": True,
    }
    with contextlib.redirect_stdout(sys.stderr):
        env = GLMBandit(config=config)
        start = time.perf_counter()
        learner = Private_RS_GLinUCB(
            env.get_first_action_set(),
            env.kappa,
            env.kappa_star,
            env.R,
            env.S,
            env.model,
            env.T,
            failure,
            asked["epsilon"],
            delta,
            rng=np.random.default_rng(asked["seed"]),
            save_privacy_search_log="never",
        )
        for _ in range(env.T):
            rewards, regrets, candidates = env.step([learner.play_arm()])
            learner.update(rewards[0], regrets[0], candidates)
        seconds = time.perf_counter() - start
    print(json.dumps({"regret": float(np.sum(learner.regret_arr)), "seconds": seconds}))


if __name__ == "__main__":
    main()
