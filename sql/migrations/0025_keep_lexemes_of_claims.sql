-- The lexemes of a statement as its language reads it: a walk over the graph compares hundreds of statements with
-- each question.
alter table kb.claim add column lexemes text[] generated always as (tsvector_to_array(to_tsvector(
    case lang when 'ru' then 'pg_catalog.russian'::regconfig when 'en' then 'pg_catalog.english'::regconfig
              else 'pg_catalog.simple'::regconfig end, text))) stored;
