-- A person's word on an edge is final.

-- The last word on each pair of concepts; keys may be those of other names by now.
create or replace view kb.decided as
select distinct on (least(h.id, t.id), greatest(h.id, t.id))
       d.head_key, d.tail_key, d.type, h.id as head_id, t.id as tail_id, d.decided_at
from kb.edge_decision d
cross join lateral (
    select c.id from kb.concept c
    where c.key = d.head_key or c.id in (select a.concept_id from kb.alias a where a.key = d.head_key)
    order by (c.key = d.head_key) desc, c.key collate "C" limit 1
) h
cross join lateral (
    select c.id from kb.concept c
    where c.key = d.tail_key or c.id in (select a.concept_id from kb.alias a where a.key = d.tail_key)
    order by (c.key = d.tail_key) desc, c.key collate "C" limit 1
) t
where h.id <> t.id
order by least(h.id, t.id), greatest(h.id, t.id), d.decided_at desc, d.head_key, d.tail_key;

-- The sentence that speaks for the type of an edge: the one whose rule fired, else its best.
create or replace function kb.shown_evidence(e kb.edge) returns text
language sql stable
set search_path = pg_catalog
as $$
    select c.text
    from kb.edge_evidence v join kb.claim c on c.id = v.claim_id
    where v.edge_id = e.id
    order by (v.ordinal = e.shown_ordinal) desc, v.ordinal
    limit 1
$$;

-- Whom an edge of a type runs from: symmetric ones in the order of keys.
create or replace function kb.head_of(type_name text, wanted bigint, one bigint, other bigint) returns bigint
language sql stable
set search_path = pg_catalog
as $$
    select case when t.is_symmetric then
               (select c.id from kb.concept c where c.id in (one, other) order by c.key collate "C" limit 1)
           else wanted end
    from kb.edge_type t where t.name = type_name
$$;

-- Give edges what people said, and back to the classifiers those of which they say nothing any more. A word on two
-- concepts that no source links makes an edge of its own.
create or replace function kb.apply_decisions() returns void
language plpgsql
set search_path = pg_catalog
as $$
begin
    delete from kb.edge e
    where e.method = 'human' and e.n_evidence = 0
      and not exists (select from kb.decided d
                      where least(d.head_id, d.tail_id) = least(e.head_id, e.tail_id)
                        and greatest(d.head_id, d.tail_id) = greatest(e.head_id, e.tail_id));
    update kb.edge e
    set method = null, typed_sha = null, type = null, status = 'pending', confidence = null, shown_ordinal = 1
    where e.method = 'human'
      and not exists (select from kb.decided d
                      where least(d.head_id, d.tail_id) = least(e.head_id, e.tail_id)
                        and greatest(d.head_id, d.tail_id) = greatest(e.head_id, e.tail_id));
    insert into kb.edge (head_id, tail_id, evidence_sha, n_sources, n_evidence)
    select d.head_id, d.tail_id, '', 0, 0
    from kb.decided d
    where d.type is not null
      and not exists (select from kb.edge e
                      where least(d.head_id, d.tail_id) = least(e.head_id, e.tail_id)
                        and greatest(d.head_id, d.tail_id) = greatest(e.head_id, e.tail_id));
    update kb.edge e
    set type = d.type, status = case when d.type is null then 'rejected' else 'typed' end, method = 'human',
        confidence = 1, rule = null, model = '', prompt_version = '', answer = '', mirror_answer = '',
        needs_review = false, shown_ordinal = case when e.rule_type = d.type then e.shown_ordinal else 1 end,
        head_id = p.head_id,
        tail_id = case when p.head_id = d.head_id then d.tail_id else d.head_id end
    from kb.decided d
    cross join lateral (
        select coalesce(kb.head_of(d.type, d.head_id, d.head_id, d.tail_id), d.head_id) as head_id
    ) p
    where least(d.head_id, d.tail_id) = least(e.head_id, e.tail_id)
      and greatest(d.head_id, d.tail_id) = greatest(e.head_id, e.tail_id)
      and (e.method, e.type, e.head_id) is distinct from ('human', d.type, p.head_id);
end
$$;
