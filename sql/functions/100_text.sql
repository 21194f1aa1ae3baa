-- Languages and hashes that queries share.

create or replace function kb.text_config(lang text) returns regconfig
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case lang when 'ru' then 'russian'::regconfig when 'en' then 'english'::regconfig
           else 'simple'::regconfig end
$$;

create or replace function kb.sha(variadic parts text[]) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select encode(sha256(convert_to(array_to_string(parts, E'\x1f', ''), 'UTF8')), 'hex')
$$;

-- One row per distinct lexeme of a text, with how often it occurs.
create or replace function kb.lexemes(lang text, body text) returns table (lexeme text, tf smallint)
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select t.lexeme, least(cardinality(t.positions), 32767)::smallint
    from unnest(to_tsvector(kb.text_config(lang), body)) t
$$;

-- A source without a title of its own bears the name of its first file.
create or replace function kb.shown_title(title text, uri text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case when title <> '' then title
                else btrim(regexp_replace(regexp_replace(uri, '^.*/|[.][^./]*$', '', 'g'), '[-_\s]+', ' ', 'g')) end
$$;
