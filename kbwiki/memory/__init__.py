"""What agents learn, kept beside the wiki: remember, recall, forget, memory_status.

The verbs, arguments and replies are those of VecMory. Ranking, decay and the garland are SQL
(functions/500_memory.sql). Knows no protocol and no command line.
"""
