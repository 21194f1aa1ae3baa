-- What keeps the index of words costs most of its time in the indexes of kb.posting: one that finds a word's
-- entries and a word of an entry, a small one for the frequent words of which only the best entries are read,
-- and one to remove an entry's words.
drop index kb.posting_lexeme;
drop index kb.posting_entry;
create index posting_lexeme on kb.posting (lexeme, pool, entry_id) include (tf, length);
create index posting_often on kb.posting (lexeme, pool, tf desc) include (entry_id, length) where tf > 1;
create index posting_entry on kb.posting (entry_id);
drop trigger if exists chunk_indexed on kb.chunk;
drop function if exists kb.index_chunk();

-- The walk goes from concepts to places and from these to entries; all that it asks stands in these two.
create index mention_place on kb.mention (concept_id) include (chunk_id, source_id, defines);
drop index kb.mention_concept;
create unique index entry_record on kb.entry (kind, record_id) include (id, source_id);
alter table kb.entry drop constraint entry_kind_record_id_key;
