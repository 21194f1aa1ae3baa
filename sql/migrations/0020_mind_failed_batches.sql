-- Which piece of evidence speaks for the type that the edge has: the one whose rule fired.
alter table kb.edge add column shown_ordinal int not null default 1;

-- The queue of the shim knows a batch by its prompt.
create index batch_prompt on kb.batch (md5(prompt));

-- An edge that waits has no type, so nothing that one could be sure of.
update kb.edge set confidence = null where status = 'pending';

-- Its arguments changed.
drop function if exists kb.classify_pending(boolean, varchar, boolean, int);
drop function if exists kb.pack_due(text, int);
