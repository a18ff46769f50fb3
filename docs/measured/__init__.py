"""Every number in README.md and docs/*.md, and the command that measured it.

A number stands between two comments of its page,

    <!-- numbers: NAME --> ... <!-- end -->

and the text between them is written by `python docs/regenerate.py`, never by hand.

| module        | holds                                                                |
|---------------|----------------------------------------------------------------------|
| `markers`     | blocks of a page: find them, replace what they hold                  |
| `commands`    | running a command once, and the records that it wrote                |
| `layout`      | from records to the text of a block                                  |
| `catalog`     | all blocks: page, command, rows, columns, processor time             |
"""
