"""The dashboard: pages for operators and auditors, made on the server.

| module   | what it does                                                              |
|----------|---------------------------------------------------------------------------|
| sessions | who has signed in, in encrypted cookies                                   |
| watch    | a thread that reads summaries of releases, and counts                     |
| charts   | lines with bands, and bars, as SVG                                        |
| views    | what pages show, and why it is public                                     |
| routes   | the pages                                                                 |

Pages contain releases and counts of people alone.
"""
