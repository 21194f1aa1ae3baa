-- Both return one column more, which no "create or replace" can add.
drop function if exists kb.search_text(text, text, text, text[], text[], bigint[], int);
drop function if exists kb.search_entries(text, text, text, text[], text[], bigint[], text, bigint[], int);
