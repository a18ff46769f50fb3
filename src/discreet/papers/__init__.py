"""Figures and tables of the papers, each by one name (`registry.REPRODUCTIONS`).

A paper has a folder with its settings, its published calibration and its figures; `cases` serves
people by learners, and papers that do something else bring a trial of their own.
"""
