"""The dashboard: pages for operators and auditors, made on the server.

| module   | what it does                                                              |
|----------|---------------------------------------------------------------------------|
| charts   | lines with bands, and bars, as SVG                                        |
| views    | what pages show, and why it is public                                     |
| routes   | the pages, and who has signed in                                          |

Pages contain releases and counts of people alone.
"""
