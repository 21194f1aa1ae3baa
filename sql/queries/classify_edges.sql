-- name: classify_by_rules
select n_typed, n_rejected from kb.classify_by_rules(%(with_model)s);

-- name: classify_pending
select n_typed, n_rejected, n_settled, n_pending, n_open, n_failed
from kb.classify_pending(with_model => %(with_model)s, model_id => %(model_id)s::varchar, retry => %(retry)s,
                         max_new => %(max_new)s::int);

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
select r.key, r.op, r.prompt, r.prompt_sha,
       coalesce(b.label || case when b.n > 1 then ' and ' || b.n - 1 || ' more' else '' end, 'ai.' || r.op)
           || ' [' || left(r.key, 8) || ']' as item
from ai_shim.request r
left join lateral (
    select (array_agg(h.title || ' and ' || t.title order by i.line))[1] as label, count(*) as n
    from kb.batch x
    join kb.batch_item i on i.batch_id = x.id
    join kb.concept h on h.id = i.a_id
    join kb.concept t on t.id = i.b_id
    where x.prompt = r.prompt and x.status = 'open'
    having count(*) > 0
) b on true
where r.status = 'pending'
order by r.created_at, r.key;

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
select (array_agg(h.title || ' and ' || t.title order by i.line))[1]
           || case when count(*) > 1 then ' and ' || count(*) - 1 || ' more' else '' end as item, b.reason
from kb.batch b
join kb.batch_item i on i.batch_id = b.id
join kb.concept h on h.id = i.a_id
join kb.concept t on t.id = i.b_id
where b.status = 'failed'
group by b.id
order by b.id;

-- name: last_batch
select coalesce(max(id), 0) from kb.batch;

-- name: list_batches_done
select b.prompt, b.response from kb.batch b where b.id > %(after)s and b.response is not null;

-- name: list_waiting_prompts
select prompt from kb.batch where status = 'open';
