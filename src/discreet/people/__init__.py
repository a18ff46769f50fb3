"""What people bring and are given: columns, tables, contexts and actions."""
