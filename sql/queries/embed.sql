-- name: has_texts
select exists (select from kb.chunk) or exists (select from kb.memory);

-- name: list_unembedded
select distinct on (t.text_sha) t.text_sha, t.text, t.pool
from kb.searched_text t
left join kb.vector v on v.model = %(model)s and v.text_sha = t.text_sha
where v.text_sha is null
order by t.text_sha, t.pool
limit %(limit)s;

-- name: save_vectors
insert into kb.vector (model, text_sha, pool, v)
select %(model)s, sha, pool, v::vector from unnest(%(shas)s::text[], %(pools)s::text[], %(vectors)s::text[]) as t (sha, pool, v)
on conflict (model, text_sha) do nothing;

-- name: save_halfvecs
insert into kb.vector (model, text_sha, pool, h)
select %(model)s, sha, pool, v::halfvec from unnest(%(shas)s::text[], %(pools)s::text[], %(vectors)s::text[]) as t (sha, pool, v)
on conflict (model, text_sha) do nothing;

-- name: count_vectors
select count(*) from kb.vector where model = %(model)s;

-- name: delete_vectors
delete from kb.vector;

-- name: delete_setting
delete from kb.setting where name = %(name)s;

-- name: index_vectors
select kb.index_vectors(%(model)s, %(min_vectors)s);
