-- name: classify_by_rules
select n_typed, n_rejected from kb.classify_by_rules(%(with_model)s);

-- name: classify_pending
select n_typed, n_rejected, n_settled, n_pending, n_open, n_failed
from kb.classify_pending(with_model => %(with_model)s, model_id => %(model_id)s::varchar, retry => %(retry)s,
                         max_new => %(max_new)s::int, ask => %(ask)s);

-- name: count_edge_types
select coalesce(e.type, e.status) as type, count(*) as n
from kb.edge e
group by 1
order by 2 desc, 1;

-- name: count_edge_methods
select coalesce(method, 'none yet') as method, count(*) as n from kb.edge group by 1 order by 1;

-- name: count_reviews
select count(*) from kb.edge where needs_review;

-- name: list_requests
-- Prompts that wait for an answer; where one is on edges, it bears the names of the first.
select r.key, r.op, r.prompt, r.prompt_sha, b.n is not null as is_batch,
       coalesce(b.label || case when b.n > 1 then ' and ' || b.n - 1 || ' more' else '' end, 'ai.' || r.op)
           || ' [' || left(r.key, 8) || ']' as item
from ai_shim.request r
left join lateral (
    select (array_agg(h.title || ' and ' || t.title order by i.line))[1] as label, count(*) as n
    from kb.batch x
    join kb.batch_item i on i.batch_id = x.id
    join kb.concept h on h.id = i.a_id
    join kb.concept t on t.id = i.b_id
    where md5(x.prompt) = md5(r.prompt) and x.prompt = r.prompt and x.status = 'open'
    having count(*) > 0
) b on true
where r.status = 'pending'
  and not exists (select from unnest(%(skip)s::text[]) s (item) where s.item like '%%[' || left(r.key, 8) || ']')
order by r.created_at, r.key
limit %(limit)s;

-- name: drop_requests
-- What edges were to be asked and are no longer, or were to be asked of another model, is not to be paid.
delete from ai_shim.request r
where r.status <> 'done' and r.op = 'generate'
  and exists (select from kb.batch b where md5(b.prompt) = md5(r.prompt) and b.prompt = r.prompt)
  and not exists (select from kb.batch b
                  where md5(b.prompt) = md5(r.prompt) and b.prompt = r.prompt and b.status = 'open'
                    and b.model_id = r.model_id);

-- name: save_response
update ai_shim.request
set status = 'done', response = %(response)s, error = '', attempts = attempts + 1, done_at = clock_timestamp()
where key = %(key)s;

-- name: note_failed_requests
-- What the run could not get an answer to, as the stage loop wrote it down.
update ai_shim.request r
set status = 'failed', error = a.reason, attempts = r.attempts + 1, done_at = clock_timestamp()
from kb.attempt a
where a.stage = %(stage)s and r.status = 'pending' and a.item like '%%[' || left(r.key, 8) || ']';

-- name: retry_requests
update ai_shim.request set status = 'pending' where status = 'failed';

-- name: count_failed_requests
select count(*) from ai_shim.failed;

-- name: list_failed_batches
-- Edges that wait because a model's last answer on them could not be used, by the batch that it answered.
with last as (
    select distinct on (e.id) e.id as edge_id, b.id as batch_id, b.status, h.title || ' and ' || t.title as label,
           coalesce(nullif(b.reason, ''), 'its line of the answer could not be read') as reason, i.line,
           case when b.response is not null and kb.n_unusable(e.id, b.model_id) >= kb.max_unusable() then
               'given up until the sentences, the model or the question change: ' else '' end as state
    from kb.edge e
    join kb.batch_item i on i.edge_id = e.id and i.evidence_sha = e.evidence_sha and i.answer = ''
    join kb.batch b on b.id = i.batch_id and b.status <> 'open' and b.prompt_version = kb.prompt_version()
    join kb.concept h on h.id = i.a_id
    join kb.concept t on t.id = i.b_id
    where e.status = 'pending'
    order by e.id, b.id desc
)
select (array_agg(label order by line))[1] || case when count(*) > 1 then ' and ' || count(*) - 1 || ' more' else '' end
           as item, state || reason as reason
from last
where status = 'failed' or state <> ''
group by batch_id, state, reason
order by batch_id, state;

-- name: count_batches_done
select count(*) from kb.batch b where b.id > %(after)s and b.response is not null;

-- name: last_batch
select coalesce(max(id), 0) from kb.batch;

-- name: count_edges_asked
select count(distinct i.edge_id) from kb.batch_item i join kb.batch b on b.id = i.batch_id and b.status = 'open';

-- name: list_waiting_prompts
select prompt from kb.batch where status = 'open' order by id;

-- name: list_open_batches
-- Batches for a server that asks by itself, by the names of the first edge of each.
select b.id, b.prompt, count(*) as n_lines,
       (array_agg(h.title || ' and ' || t.title order by i.line))[1]
           || case when count(*) > 1 then ' and ' || count(*) - 1 || ' more' else '' end || ' [' || b.id || ']' as item
from kb.batch b
join kb.batch_item i on i.batch_id = b.id
join kb.concept h on h.id = i.a_id
join kb.concept t on t.id = i.b_id
where b.status = 'open'
group by b.id
having (array_agg(h.title || ' and ' || t.title order by i.line))[1]
           || case when count(*) > 1 then ' and ' || count(*) - 1 || ' more' else '' end || ' [' || b.id || ']'
       <> all (%(skip)s::text[])
order by b.id
limit %(limit)s;

-- name: ask_batch
select kb.ask_batch(%(id)s, %(model_id)s::varchar) as reason;

-- name: read_response
select coalesce(response, '') from kb.batch where id = %(id)s;
