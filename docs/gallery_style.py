"""The look of the gallery's pictures, and which figure of an example is its picture."""

import matplotlib.pyplot as plt
from cycler import cycler
from sphinx_gallery.scrapers import figure_rst

from discreet.lab.reporting.layout import arm_colors


def look(_configuration, _file):
    """Set before each example: the colours of the reports, room for labels, a light grid."""
    plt.close("all")
    plt.rcdefaults()
    plt.rcParams.update(
        {
            "axes.prop_cycle": cycler(color=arm_colors(6)),
            "axes.grid": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.constrained_layout.use": True,
            "figure.figsize": (7.0, 3.8),
            "grid.color": "#e6e6e6",
            "image.cmap": "cividis",
            "legend.frameon": False,
        }
    )


def _get_sg_image_scraper():
    return scrape


def scrape(_block, variables, configuration):
    """The picture is `figure`, by pyplot or by the library, which keeps out of pyplot's state."""
    figure = variables["example_globals"].pop("figure", None)
    if figure is None:
        return ""
    path = next(variables["image_path_iterator"])
    figure.savefig(path, dpi=200)
    return figure_rst([path], configuration["src_dir"])
