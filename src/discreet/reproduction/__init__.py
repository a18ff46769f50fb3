"""Figures and tables of the papers, each by one name (`registry.REPRODUCTIONS`).

A paper has a module or folder of its own with its settings, its published calibration and its
constants; `runner` runs their cases on the same people for every method.
"""
