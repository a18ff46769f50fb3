"""A device and a server that share nothing but JSON: python examples/device_and_server.py

Needs the extra `secure`. Each person's context, action and reward stay on the device.
"""

import numpy as np

from discreet import (
    Actions,
    Box,
    Local,
    Partition,
    Policy,
    Reports,
    SecureNoise,
    Terms,
    decode,
    encode,
)

DOMAIN = Box.of({"age": (18, 90)})  # public bounds
ARMS = ["letter", "visit"]
TERMS = Terms(DOMAIN, ARMS, most_epsilon=2.0)  # what the people behind the devices agreed to


def device(policy_text: str, age: float, rng: np.random.Generator) -> str:
    """One person: act, see what happens, send one private report."""
    policy = decode(policy_text, Policy)
    context = {"age": age}
    actions, _ = policy.act(context, rng, TERMS)  # terms are checked before any data is looked at
    pending = encode(actions)  # kept on the device, with the policy, until the reward comes
    chance = 0.8 if (actions.names[0] == "visit") == (age > 50) else 0.2  # visit the older
    reward = [float(rng.random() < chance)]
    actions = decode(pending, Actions)
    return encode(policy.report(context, actions, reward, SecureNoise(), TERMS))


def main() -> None:
    """Two thousand people, one after another."""
    rng = np.random.default_rng(1)
    server = Partition(DOMAIN, ARMS, budget=Local(2.0))
    for _ in range(10):
        policy_text = encode(server.policy())
        people = [device(policy_text, age, rng) for age in rng.uniform(18, 90, 200)]
        server.update([decode(text, Reports) for text in people])
    for age in (30.0, 70.0):
        chance = server.policy().probabilities({"age": age})[0, 1]
        print(f"age {age:g}: a visit with probability {chance:.2f}")
    print(server.guarantee().sentence)


if __name__ == "__main__":
    main()
