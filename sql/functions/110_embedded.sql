-- Every text that is searched by vector, and the pool of its search.

create or replace view kb.searched_text as
select 'chunk'::text as kind, id as record_id, text_sha, text, lang as pool from kb.chunk
union all
select 'concept', id, text_sha, search_text, lang from kb.concept
union all
select 'article', id, text_sha, search_text, lang from kb.article where concept_id is null
union all
select 'answer', id, text_sha, question, lang from kb.answer
union all
select 'memory', id, text_sha, cleaned, 'memory/' || lang from kb.memory
union all
select 'background', id, text_sha, text, 'background' from kb.background
where exists (select from kb.memory) or exists (select from kb.source);
