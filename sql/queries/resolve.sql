-- Concepts, aliases, mentions and the pages of sources.

-- name: fingerprint_resolve
select kb.sha('resolve', %(version)s, coalesce(string_agg(
           kb.sha(e.fingerprint, e.title, e.reading_id::text, e.source_id::text,
                  (select string_agg(u.uri, ' ' order by u.uri) from kb.source_uri u where u.source_id = e.source_id)),
           ' ' order by e.fingerprint), ''),
           (select coalesce(string_agg(kb.sha(d.first, d.second, d.same::text), ' ' order by d.first, d.second), '')
            from kb.decision d),
           (select coalesce(string_agg(kb.sha(d.name, d.title, d.uri, d.sha256), ' '
                                       order by d.name, d.title, d.uri, d.sha256), '')
            from kb.split d))
from kb.extraction e;

-- name: list_decisions
select first, second, same, true as by_person from kb.decision order by first, second;

-- name: keep_up_splits
-- A file is known by its bytes, or, where these are gone, by its place.
update kb.split d
set sha256 = n.sha256, uri = n.uri
from (
    select d.id, coalesce(b.sha256, p.sha256, d.sha256) as sha256, coalesce(b.uri, d.uri) as uri
    from kb.split d
    left join lateral (
        select s.sha256, u.uri from kb.source s join kb.source_uri u on u.source_id = s.id
        where s.sha256 = d.sha256 order by (u.uri = d.uri) desc, u.uri collate "C" limit 1
    ) b on true
    left join lateral (
        select s.sha256 from kb.source s join kb.source_uri u on u.source_id = s.id where u.uri = d.uri
    ) p on true
) n
where n.id = d.id and (n.sha256, n.uri) is distinct from (d.sha256, d.uri);

-- name: list_splits
select distinct on (s.id, d.name) s.id as source_id, d.name, d.name_title, d.title
from kb.split d join kb.source s on s.sha256 = d.sha256
order by s.id, d.name, d.decided_at desc, d.id desc;

-- name: delete_homonyms
delete from kb.homonym;

-- name: save_homonym
insert into kb.homonym (concept_key, title, uris, reason) values (%(key)s, %(title)s, %(uris)s, %(reason)s);

-- name: read_setting
select value from kb.setting where name = %(name)s;

-- name: save_setting
insert into kb.setting (name, value) values (%(name)s, %(value)s)
on conflict (name) do update set value = excluded.value;

-- name: count_concepts
select (select count(*) from kb.concept) as n_concepts, (select count(*) from kb.mention) as n_mentions,
       (select count(*) from kb.likeness where status = 'doubtful') as n_doubtful,
       (select count(*) from kb.homonym) as n_homonyms;

-- name: list_extractions
select e.source_id, e.fingerprint || ' ' || e.reading_id as fingerprint, e.title, e.lang, e.lemmas, e.starts, e.ends, e.link_starts, e.link_ends,
       s.text, array(select jsonb_array_elements_text(coalesce(s.structure -> 'aliases', '[]'))) as aliases,
       (select min(uri collate "C") from kb.source_uri u where u.source_id = s.id) as uri
from kb.extraction e join kb.source s on s.id = e.source_id;

-- name: list_claims
select id, source_id, start_at, end_at, text, lang, page, heading, rank, statement as wording
from kb.claim order by source_id, ordinal;

-- name: list_chunk_spans
select id, source_id, start_at from kb.chunk order by source_id, ordinal;

-- name: list_candidates
select source_id, key, name, lang, kind, signals, aliases, definition_start, definition_end from kb.candidate;

-- name: list_titles
select id, key, title from kb.concept;

-- name: delete_concepts_but
delete from kb.concept where not (key = any (%(keys)s::text[]));

-- name: save_concept
insert into kb.concept as c (key, title, slug, kind, lang, definition, main_source_id, n_sources, n_mentions,
                             input_sha, search_text, text_sha)
values (%(key)s, %(title)s, %(slug)s, %(kind)s, %(lang)s, %(definition)s, %(main_source_id)s, %(n_sources)s,
        %(n_mentions)s, %(input_sha)s, %(search_text)s, kb.sha(%(search_text)s))
on conflict (key) do update
set title = excluded.title, slug = excluded.slug, kind = excluded.kind, lang = excluded.lang,
    definition = excluded.definition, main_source_id = excluded.main_source_id, n_sources = excluded.n_sources,
    n_mentions = excluded.n_mentions, input_sha = excluded.input_sha, search_text = excluded.search_text,
    text_sha = excluded.text_sha
where (c.title, c.slug, c.main_source_id, c.n_sources, c.n_mentions, c.input_sha, c.text_sha)
      is distinct from
      (excluded.title, excluded.slug, excluded.main_source_id, excluded.n_sources, excluded.n_mentions,
       excluded.input_sha, excluded.text_sha);

-- name: delete_aliases
delete from kb.alias;

-- name: save_alias
insert into kb.alias (concept_id, key, name, lang, kind, lemmas)
select id, %(key)s, %(name)s, %(lang)s, %(kind)s, %(lemmas)s from kb.concept where key = %(concept)s;

-- name: save_page
insert into kb.source_page as p (source_id, key, title, slug, mentions_sha, input_sha)
values (%(source_id)s, %(key)s, %(title)s, %(slug)s, '', %(input_sha)s)
on conflict (source_id) do update
set key = excluded.key, title = excluded.title, slug = excluded.slug, input_sha = excluded.input_sha;

-- name: list_mention_shas
select source_id, mentions_sha from kb.source_page;

-- name: delete_mentions
delete from kb.mention where source_id = %(source_id)s;

-- name: save_mentions
insert into kb.mention (concept_id, source_id, chunk_id, claim_id, start_at, end_at, linked, defines)
select concept_id, %(source_id)s, chunk_id, claim_id, start_at, end_at, linked, defines
from unnest(%(concepts)s::bigint[], %(chunks)s::bigint[], %(claims)s::bigint[], %(starts)s::int[], %(ends)s::int[],
            %(linked)s::boolean[], %(defines)s::boolean[])
     as m (concept_id, chunk_id, claim_id, start_at, end_at, linked, defines);

-- name: save_mentions_sha
update kb.source_page set mentions_sha = %(sha)s where source_id = %(source_id)s;

-- name: list_name_vectors
select name, v from kb.name_vector where model = %(model)s and name = any (%(names)s::text[]);

-- name: save_name_vector
insert into kb.name_vector (model, name, v) values (%(model)s, %(name)s, %(v)s)
on conflict (model, name) do nothing;

-- name: list_verdicts
select pair_sha, same from kb.verdict where pair_sha = any (%(shas)s::text[]);

-- name: save_verdict
insert into kb.verdict (pair_sha, engine, same) values (%(sha)s, %(engine)s, %(same)s)
on conflict (pair_sha) do update set same = excluded.same, asked_at = now();

-- name: delete_likenesses
delete from kb.likeness;

-- name: save_likeness
insert into kb.likeness (first_key, second_key, first_title, second_title, band, status, score, reason)
values (%(first_key)s, %(second_key)s, %(first_title)s, %(second_title)s, %(band)s, %(status)s, %(score)s, %(reason)s);
