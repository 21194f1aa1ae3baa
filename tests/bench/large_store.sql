-- Names, mentions and edges of a store that bench_search.py has filled with chunks and concepts. A few concepts
-- are named very often, most of them seldom, as in real text.
insert into kb.alias (concept_id, key, name, lang, kind, lemmas)
select id, key, title, 'en', 'form', lower(title) from kb.concept;

insert into kb.mention (concept_id, source_id, chunk_id, start_at, end_at, linked, defines)
select c.id, k.source_id, k.id, k.ordinal * 100 + x, k.ordinal * 100 + x + 5, false, false
from kb.chunk k
cross join generate_series(1, 8) x
cross join (select count(*) - 2 as n from kb.concept) size
join kb.concept c on c.id = 1 + (power(abs(hashint8(k.id * 31 + x)) / 2147483648.0, 3) * size.n)::bigint;

insert into kb.edge (head_id, tail_id, evidence_sha, n_sources, n_evidence, type, status, confidence, method)
select distinct on (least(a.id, b.id), greatest(a.id, b.id))
       a.id, b.id, '', 1, 1, 'uses', 'typed', 0.7, 'rule'
from kb.concept a
cross join generate_series(1, 10) x
cross join (select count(*) - 2 as n from kb.concept) size
join kb.concept b on b.id = 1 + (power(abs(hashint8(a.id * 17 + x)) / 2147483648.0, 2) * size.n)::bigint
where a.id <> b.id;
