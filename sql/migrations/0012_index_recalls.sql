create index memory_recall_at on kb.memory_recall (recalled_at);
