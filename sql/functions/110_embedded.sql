-- Every text that is searched by vector.

create or replace view kb.searched_text as
select 'chunk'::text as kind, id as record_id, text_sha, text from kb.chunk
union all
select 'concept', id, text_sha, search_text from kb.concept
union all
select 'article', id, text_sha, search_text from kb.article where concept_id is null;
