-- How many memories others keep to themselves is counted at each recall.
create index memory_private on kb.memory (owner) where owner <> '';
