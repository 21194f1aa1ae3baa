-- name: link_concepts
select n_edges, n_new, n_changed, n_gone from kb.link_concepts(%(max_named)s, %(max_kept)s);

-- name: fingerprint_link
select kb.sha('link', %(version)s, coalesce(string_agg(p.mentions_sha, ' ' order by p.key collate "C"), ''),
              (select coalesce(string_agg(c.key || c.kind || coalesce(p.key, ''), ' ' order by c.key collate "C"), '') from kb.concept c left join kb.source_page p on p.source_id = c.main_source_id))
from kb.source_page p;

-- name: count_edges
select count(*) from kb.edge;
